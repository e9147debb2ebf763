"""CUDA devices: what they are, and their primary contexts (the ones that PyTorch and the CUDA runtime use)."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tiledsl.backend_cuda.driver.call_driver import bindings, call, process
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import TileError, fail
from tiledsl.support.when_dropped import when_dropped


@dataclass(frozen=True)
class Facts:
    """What a device is. `arch` is the name of what it runs, as `sm_90`."""

    name: str
    arch: str
    multiprocessors: int
    shared_bytes: int
    """The most shared memory that a block may ask for."""
    memory_bytes_per_second: float
    """As its memory's clock and the width of its bus have it; 0 where the driver does not say."""

    @property
    def words(self) -> str:
        """`NVIDIA H200, 132 multiprocessors`"""
        return f"{self.name}, {self.multiprocessors} multiprocessors"


@dataclass(frozen=True)
class Device(Facts):
    """One device, that this process works with. `context` is its primary context, at `address`."""

    number: int
    context: Any
    address: int


def device_count() -> int:
    """How many devices this process sees. Raises TileRuntimeError without a driver."""
    return int(call("cuDeviceGetCount"))


def device_of(number: int) -> Device:
    """The device of that number, counted as CUDA_VISIBLE_DEVICES and PyTorch do. Raises TileRuntimeError."""
    bindings()  # raises in a fork
    with process().lock:
        devices = process().devices
        if number not in devices:
            devices[number] = _opened(number)
        return devices[number]


def describe_device(number: int) -> str:
    """A device in words, which tell it from others: what measured times are times of. Raises TileRuntimeError."""
    return device_of(number).words


def devices_at_hand() -> list[Facts]:
    """The devices that this process sees; none where there is no driver. Makes no context, as work with a device would:
    nothing runs there yet."""
    try:
        return [_facts(call("cuDeviceGet", number)) for number in range(device_count())]
    except TileError:
        return []


def _opened(number: int) -> Device:
    count = device_count()
    if not 0 <= number < count:
        if count == 0:
            fail("cuda-no-device", caller_location())
        fail("cuda-device-number", caller_location(), device=number, count=count, last=count - 1)
    handle = call("cuDeviceGet", number)
    facts = _facts(handle)
    context = call("cuDevicePrimaryCtxRetain", handle)
    return Device(**vars(facts), number=number, context=context, address=int(context))


def _facts(handle: Any) -> Facts:
    attribute = bindings().CUdevice_attribute

    def ask(name: str) -> int:
        return int(call("cuDeviceGetAttribute", getattr(attribute, f"CU_DEVICE_ATTRIBUTE_{name}"), handle))

    major, minor = ask("COMPUTE_CAPABILITY_MAJOR"), ask("COMPUTE_CAPABILITY_MINOR")
    name = call("cuDeviceGetName", 128, handle)
    return Facts(
        name=name.split(b"\0")[0].decode() if isinstance(name, bytes) else str(name),
        arch=f"sm_{major}{minor}",
        multiprocessors=ask("MULTIPROCESSOR_COUNT"),
        shared_bytes=ask("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        memory_bytes_per_second=2e3 * ask("MEMORY_CLOCK_RATE") * ask("GLOBAL_MEMORY_BUS_WIDTH") / 8,  # kHz, bits
    )


def is_current(device: Device) -> bool:
    """Whether the calling thread works with that device."""
    return int(call("cuCtxGetCurrent")) == device.address


@contextmanager
def current(device: Device) -> Generator[None]:
    """The calling thread works with that device; afterwards with what it did before, if that was another one."""
    before = int(call("cuCtxGetCurrent"))
    if before == device.address:
        yield
    elif before == 0:  # a thread that has not used CUDA: there is nothing to go back to
        call("cuCtxSetCurrent", device.context)
        yield
    else:
        call("cuCtxPushCurrent", device.context)
        try:
            yield
        finally:
            call("cuCtxPopCurrent")


def free_when_dropped(owner: object, device: Device, name: str, *arguments: Any) -> None:
    """Calls a function of the driver once nobody has the owner any more: not at the end of the process, nor in a fork,
    and if the device has failed in the meantime nobody hears of it."""
    when_dropped(owner, _free, device, name, arguments)


def _free(device: Device, name: str, arguments: tuple[Any, ...]) -> None:
    if process().forked:
        return
    with current(device):
        call(name, *arguments)
