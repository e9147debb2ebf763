"""The table of GPUs, and how an architecture is named."""

from dataclasses import replace

import pytest

from tiledsl.backend_cuda.build.architectures import nvrtc_architecture
from tiledsl.passes.gpu_machine import (
    GPU_MACHINES,
    architecture_of,
    gpu_machine,
    machine_of_capability,
    machine_of_device,
)
from tiledsl.support.errors import TileUnsupportedError
from tiledsl.support.location import Location


def test_the_hopper_table() -> None:
    machine = gpu_machine("sm_90")
    assert (machine.name, machine.capability, machine.multiprocessors) == ("sm_90", 90, 132)
    assert machine.shared_bytes_per_block == 232448  # what a driver reports as the opt-in maximum
    assert machine.shared_bytes_per_multiprocessor == 233472
    assert (machine.max_cluster, machine.registers, machine.max_threads_per_block) == (8, 65536, 1024)


@pytest.mark.parametrize(("name", "kibibytes"), [("sm_80", 163), ("sm_86", 99), ("sm_89", 99), ("sm_100", 227)])
def test_shared_memory(name: str, kibibytes: int) -> None:
    assert gpu_machine(name).shared_bytes_per_block == kibibytes << 10


def test_names_tell_capabilities_in_rising_order() -> None:
    capabilities = [machine.capability for machine in GPU_MACHINES.values()]
    assert capabilities == sorted(capabilities)
    assert all(machine.name == name == f"sm_{machine.capability}" for name, machine in GPU_MACHINES.items())


@pytest.mark.parametrize("name", ["sm_90a", "sm_100a", "sm_100f", "sm_120a"])
def test_a_letter_means_no_other_machine(name: str) -> None:
    assert gpu_machine(name) is gpu_machine(name[:-1])


def test_features_by_architecture() -> None:
    def having(feature: str) -> list[str]:
        return [name for name, machine in GPU_MACHINES.items() if getattr(machine, feature)]

    assert having("has_async_copy") == list(GPU_MACHINES)
    # As text, "sm_100" < "sm_90".
    assert having("has_clusters") == ["sm_90", "sm_100", "sm_103", "sm_120", "sm_121"]
    assert [gpu_machine(name).max_cluster for name in ("sm_80", "sm_90", "sm_120")] == [1, 8, 8]


@pytest.mark.parametrize(("capability", "name"), [(80, "sm_80"), (87, "sm_86"), (88, "sm_86"), (90, "sm_90")])
def test_a_device_runs_code_of_its_generation(capability: int, name: str) -> None:
    assert machine_of_capability(capability).name == name


def test_a_missing_architecture_names_the_one_to_take() -> None:
    with pytest.raises(TileUnsupportedError, match="compile for `sm_86`"):
        gpu_machine("sm_87")


@pytest.mark.parametrize("capability", [75, 101, 110])
def test_a_device_that_no_code_runs_on(capability: int) -> None:
    with pytest.raises(TileUnsupportedError, match=f"sm_{capability}"):
        machine_of_capability(capability)


def test_another_gpu_of_an_architecture() -> None:
    pcie = gpu_machine("sm_90a:114x2000")
    assert (pcie.name, pcie.multiprocessors, pcie.memory_bytes_per_second) == ("sm_90:114x2000", 114, 2e12)
    assert replace(gpu_machine("sm_90"), name=pcie.name, multiprocessors=114, memory_bytes_per_second=2e12) == pcie
    assert architecture_of(pcie.name) == "sm_90" == architecture_of("sm_90")
    assert architecture_of("cpu") == "cpu"
    assert nvrtc_architecture(pcie, known=[90]) == "sm_90a"


@pytest.mark.parametrize(
    ("capability", "multiprocessors", "gigabytes", "name"),
    [
        (90, 132, 4917, "sm_90"),  # an H200, as its driver has it: clocks and bits
        (90, 132, 3352, "sm_90"),  # H100, SXM
        (90, 132, 2400, "sm_90:132x2400"),
        (90, 114, 2039, "sm_90:114x2050"),  # H100, PCIe
        (90, 132, 0, "sm_90"),  # not known
        (90, 78, 0, "sm_90:78x4800"),
        (80, 108, 1555, "sm_80"),  # A100, 40 GB
        (80, 108, 1200, "sm_80:108x1200"),
        (89, 58, 300, "sm_89:58x300"),
        (87, 16, 205, "sm_86:16x200"),
    ],
)
def test_a_device_has_its_own_figures(capability: int, multiprocessors: int, gigabytes: float, name: str) -> None:
    machine = machine_of_device(capability, multiprocessors, gigabytes * 1e9)
    assert machine.name == name
    assert gpu_machine(name) == machine


@pytest.mark.parametrize(
    "name",
    ["sm_101", "sm_110", "sm_200", "hopper", "sm90", "sm_90x", "sm_", "", "sm_90:", "sm_90:132", "sm_90:0x100",
     "sm_90:132x0", "sm_101:132x3350"],
)  # fmt: skip
def test_an_unknown_name_lists_the_known(name: str) -> None:
    with pytest.raises(TileUnsupportedError, match="choose one of `sm_80`, `sm_86`"):
        gpu_machine(name)


@pytest.mark.parametrize("name", ["sm_75", "sm_70a"])
def test_too_old(name: str) -> None:
    here = Location("kernel.py", 4)
    with pytest.raises(TileUnsupportedError, match="older than `sm_80`") as info:
        gpu_machine(name, here)
    assert info.value.location == here
