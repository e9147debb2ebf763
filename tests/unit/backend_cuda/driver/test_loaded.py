"""Launches on a fake driver: what the device would find in its parameters, on which stream, and what goes wrong."""

from __future__ import annotations

import ctypes
import gc
import struct
import threading
from dataclasses import replace
from typing import Any

import ml_dtypes
import pytest

from tests.support.fakes.fake_driver import FakeDriver, Launch, Status, fake_driver
from tests.support.fakes.loaded_kernels import FAILURE, PARAMETERS, N, code, loaded
from tiledsl.backend_cuda.driver.call_driver import process
from tiledsl.backend_cuda.driver.services import synchronize
from tiledsl.backend_cuda.frame.kernel_code import KernelParameter
from tiledsl.support.errors import TileError

STRIDES = [(1,), (7,)]


@pytest.fixture
def driver() -> Any:
    with fake_driver(counts={"k": len(PARAMETERS)}) as fake:
        yield fake


def bits(value: float) -> int:
    """A double as the word that carries it."""
    return struct.unpack("q", struct.pack("d", value))[0]


def failure(act: Any) -> TileError:
    with pytest.raises(TileError) as caught:
        act()
    return caught.value


def test_words_are_in_the_order_of_the_parameters(driver: FakeDriver) -> None:
    bound = loaded().bind({"N": 3}, STRIDES, "told")
    assert bound.description == "told"
    bound((0x100, 0x200), (-5, 2.5), 7)
    (launch,) = driver.launches
    assert launch == Launch("k", (0x100, 3, 0x200, 7, bits(2.5), -5), 3, 128, 0, 1, 7, 0x1000)


@pytest.mark.parametrize(
    ("dtype", "value", "word"),
    [
        ("f32", 0.1, bits(0.1)),
        ("f8e4m3", 1, bits(1.0)),
        ("f64", float("inf"), bits(float("inf"))),
        ("i8", -3, -3),
        ("bool", 1, 1),
        ("i64", -(2**63), -(2**63)),
        ("u64", 2**64 - 1, -1),
        ("u32", 2**32 - 1, 2**32 - 1),
        ("bf16", ml_dtypes.bfloat16(1.5), bits(1.5)),
    ],
)
def test_scalars(driver: FakeDriver, dtype: str, value: Any, word: int) -> None:
    driver.counts["k"] = 1
    kernels = loaded(code(parameters=(KernelParameter("scalar", 1, symbol=dtype),)))
    kernels.bind({"N": 1}, [], "")((), (2**64 - 1, value), 0)  # the first is taken by no kernel
    assert driver.launches[0].words == (word,)


def test_several_kernels_share_one_frame(driver: FakeDriver) -> None:
    first = code("first", parameters=(KernelParameter("tensor", 1), KernelParameter("size", symbol="M")))
    second = code("second", parameters=(KernelParameter("size", symbol="M"), KernelParameter("tensor", 0)), threads=64)
    driver.counts.update(first=2, second=2)
    bound = loaded(first, second).bind({"N": 2, "M": 9}, STRIDES, "")
    for stream in (0, 5):
        bound((1, 2), (), stream)
    assert [(launch.function, launch.words, launch.stream) for launch in driver.launches] == [
        ("first", (2, 9), 0),
        ("second", (9, 1), 0),
        ("first", (2, 9), 5),
        ("second", (9, 1), 5),
    ]


def test_no_programs_means_no_launch(driver: FakeDriver) -> None:
    driver.counts["always"] = 0
    bound = loaded(code(), code("always", programs=1, parameters=())).bind({"N": 0}, STRIDES, "")
    bound((0, 0), (1, 1.0), 0)
    assert [launch.function for launch in driver.launches] == ["always"]
    nothing = loaded().bind({"N": 0}, STRIDES, "")
    nothing((0, 0), (1, 1.0), 0)
    nothing.launcher((0, 0), (1, 1.0), 0)
    nothing.prepare((0, 0), (1, 1.0), 0)()
    assert len(driver.launches) == 1


def test_clusters_and_shared_memory(driver: FakeDriver) -> None:
    kernel = code(cluster=16, shared_bytes=100_000)
    loaded(kernel).bind({"N": 3}, STRIDES, "")((0, 0), (1, 1.0), 0)
    (launch,) = driver.launches
    assert (launch.blocks, launch.cluster, launch.shared_bytes) == (48, 16, 100_000)
    assert driver.function_attributes["k"] == {
        "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES": 100_000,
        "CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED": 1,
    }
    driver.function_attributes.clear()
    loaded(code(cluster=8, shared_bytes=48 << 10))
    assert driver.function_attributes == {}


@pytest.mark.parametrize("way", ["call", "prepared"])
def test_kernels_overlap_with_those_before_in_the_program(driver: FakeDriver, way: str) -> None:
    kernels = [code(name, parameters=(), overlaps=name != "first") for name in ("first", "second", "third")]
    kernels[1] = replace(kernels[1], cluster=4)
    kernels[0] = replace(kernels[0], programs=N - 1)
    bound = [loaded(*kernels).bind({"N": n}, [], "") for n in (2, 1)]
    for each in bound:
        act = each.prepare((), (), 0) if way == "prepared" else lambda each=each: each((), (), 0)
        act()
    assert [(launch.function, launch.overlaps, launch.cluster) for launch in driver.launches] == [
        ("first", False, 1),
        ("second", True, 4),
        ("third", True, 1),
        # without programs the first is not launched: the second comes after what others have put on the stream
        ("second", False, 4),
        ("third", True, 1),
    ]


@pytest.mark.parametrize("wanted", [False, True])
def test_a_first_kernel_overlaps_on_request(
    driver: FakeDriver, monkeypatch: pytest.MonkeyPatch, *, wanted: bool
) -> None:
    monkeypatch.setenv("TILEDSL_OVERLAP", str(int(wanted)))
    kernels = [code(name, parameters=(), overlaps=True, waits_first=name == "first") for name in ("first", "second")]
    kernels[0] = replace(kernels[0], programs=N - 1)
    for n in (2, 1):
        loaded(*kernels).bind({"N": n}, [], "")((), (), 0)
    assert [(launch.function, launch.overlaps) for launch in driver.launches] == [
        ("first", wanted),
        ("second", True),
        # without programs the first is not launched, and the second waits for no other's tensors
        ("second", False),
    ]


def test_kernels_do_not_overlap_where_a_graph_could_not_have_them(driver: FakeDriver) -> None:
    driver.version = 12020
    kernels = [code(name, parameters=(), overlaps=name != "first") for name in ("first", "second")]
    loaded(*kernels).bind({"N": 1}, [], "")((), (), 0)
    assert [launch.overlaps for launch in driver.launches] == [False, False]


def test_more_shared_memory_than_there_is(driver: FakeDriver) -> None:
    driver.failing["cuFuncSetAttribute"] = Status.CUDA_ERROR_INVALID_VALUE
    error = failure(lambda: loaded(code(shared_bytes=300_000)))
    assert error.code == "cuda-resources"
    assert "300000 bytes of shared memory" in error.message


def test_kernels_that_go_through_their_programs_themselves(driver: FakeDriver) -> None:
    for cluster, blocks in ((1, 264), (5, 260)):
        loaded(code(programs=None, cluster=cluster)).bind({"N": 3}, STRIDES, "")((0, 0), (1, 1.0), 0)
        assert driver.launches[-1].blocks == blocks


def test_sizes_and_strides_past_32_bits(driver: FakeDriver) -> None:
    large = 2**40
    bound = loaded(code(programs=N // 2**30)).bind({"N": large}, [(1,), (large,)], "")
    bound((2**47, 0), (1, 1.0), 0)
    assert driver.launches[0].words[:4] == (2**47, large, 0, large)


# The short way, prepared launches


def test_the_short_way_does_the_same(driver: FakeDriver) -> None:
    bound = loaded().bind({"N": 3}, STRIDES, "")
    bound((1, 2), (3, 4.0), 5)
    bound.launcher((1, 2), (3, 4.0), 5)
    bound.prepare((1, 2), (3, 4.0), 5)()
    assert len(set(driver.launches)) == 1
    assert len(driver.launches) == 3
    for stream in (6, 5):
        bound.launcher((1, 2), (3, 4.0), stream)
        assert driver.launches[-1].stream == stream


def test_prepared_launches_keep_their_words(driver: FakeDriver) -> None:
    bound = loaded().bind({"N": 3}, STRIDES, "")
    prepared = bound.prepare((1, 2), (3, 4.0), 5)
    bound((7, 8), (9, 10.0), 11)
    gc.collect()
    for _ in range(2):
        prepared()
        assert driver.launches[-1].words[0] == 1
        assert driver.launches[-1].stream == 5


def test_threads_have_frames_of_their_own(driver: FakeDriver) -> None:
    """The second call comes while the first is in the driver."""
    bound = loaded().bind({"N": 1}, STRIDES, "")
    inside, seen = threading.Event(), threading.Event()

    def effect(launch: Launch) -> None:
        if launch.words[0] == 1:
            inside.set()
            assert seen.wait(10)
        else:
            seen.set()

    driver.effects["k"] = effect
    first = threading.Thread(target=lambda: bound.launcher((1, 1), (1, 1.0), 0))
    first.start()
    assert inside.wait(10)
    bound.launcher((2, 2), (2, 2.0), 9)
    first.join()
    assert sorted((launch.words[0], launch.stream) for launch in driver.launches) == [(1, 0), (2, 9)]


# Contexts


def test_a_thread_gets_the_context_of_the_device(driver: FakeDriver) -> None:
    bound = loaded().bind({"N": 1}, STRIDES, "")
    contexts: list[list[int]] = []

    def work() -> None:
        for _ in range(2):
            bound.launcher((1, 2), (3, 4.0), 5)
            contexts.append([int(context) for context in driver.contexts])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert contexts == [[0x1000], [0x1000]]
    assert driver.calls.count("cuLaunchKernelEx") == 3  # one was refused


def test_another_context_is_put_back() -> None:
    with fake_driver(devices=2, counts={"k": len(PARAMETERS)}) as fake:
        bound = loaded(device=1).bind({"N": 1}, STRIDES, "")
        fake.cuCtxSetCurrent(fake.cuDevicePrimaryCtxRetain(0)[1])
        for launch in (bound, bound.launcher, bound.prepare):
            done = launch((1, 2), (3, 4.0), 5)
            if done is not None:
                done()
            assert fake.launches[-1].context == 0x1001
            assert fake.contexts == [0x1000]
        assert len(fake.launches) == 3


# What goes wrong


@pytest.mark.parametrize("way", ["call", "launcher", "prepared"])
@pytest.mark.parametrize(
    ("status", "code_"),
    [
        (Status.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "cuda-resources"),
        (Status.CUDA_ERROR_INVALID_HANDLE, "cuda-stream"),
        (Status.CUDA_ERROR_ILLEGAL_ADDRESS, "cuda-fault"),
        (Status.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "cuda-capture"),
        (Status.CUDA_ERROR_OUT_OF_MEMORY, "cuda-memory"),
        (Status.CUDA_ERROR_NOT_INITIALIZED, "cuda-forked"),
    ],
)
def test_errors_of_a_launch(driver: FakeDriver, way: str, status: Status, code_: str) -> None:
    bound = loaded().bind({"N": 1}, STRIDES, "")
    prepared = bound.prepare((1, 2), (3, 4.0), 0)
    ways: dict[str, Any] = {
        "call": lambda: bound((1, 2), (3, 4.0), 0),
        "launcher": lambda: bound.launcher((1, 2), (3, 4.0), 0),
        "prepared": prepared,
    }
    driver.failing["cuLaunchKernelEx"] = status
    assert failure(ways[way]).code == code_
    driver.failing.clear()
    ways[way]()
    assert len(driver.launches) == 1


def test_the_kernels_before_a_refused_one_run_once(driver: FakeDriver) -> None:
    driver.counts.update(first=0, second=0)
    bound = loaded(code("first", parameters=()), code("second", parameters=())).bind({"N": 1}, [], "")
    driver.effects["first"] = lambda launch: driver.failing.update(cuLaunchKernelEx=Status.CUDA_ERROR_INVALID_VALUE)
    for launch in (lambda: bound((), (), 0), bound.prepare((), (), 0)):
        driver.failing.clear()
        driver.launches.clear()
        assert failure(launch).code == "cuda-resources"
        assert [launch.function for launch in driver.launches] == ["first"]


def test_suspects_are_those_since_the_last_wait(driver: FakeDriver) -> None:
    early, late, last = (loaded(name=name).bind({"N": 1}, STRIDES, "") for name in ("early", "late", "last"))
    early((1, 2), (3, 4.0), 0)
    synchronize(None, None)
    for bound in (late, last, late, last):
        bound.launcher((1, 2), (3, 4.0), 0)
    driver.failing["cuCtxSynchronize"] = Status.CUDA_ERROR_ILLEGAL_ADDRESS
    error = failure(lambda: synchronize(None, None))
    assert error.code == "cuda-fault"
    assert "`last`, `late`" in error.message
    assert "early" not in str(error)
    assert "loaded_kernels.py:1" in str(error)


def test_a_fault_without_a_launch_is_nobodys(driver: FakeDriver) -> None:
    loaded()
    driver.failing["cuCtxSynchronize"] = Status.CUDA_ERROR_ILLEGAL_ADDRESS
    assert "none of tiledsl's" in failure(lambda: synchronize(None, None)).message


def test_many_suspects_are_counted(driver: FakeDriver) -> None:
    for number in range(9):
        loaded(name=f"k{number}").bind({"N": 1}, STRIDES, "")((1, 2), (3, 4.0), 0)
    driver.failing["cuStreamSynchronize"] = Status.CUDA_ERROR_ILLEGAL_ADDRESS
    assert failure(lambda: synchronize(0, 5)).message.endswith("`k8`, `k7`, `k6`, `k5`, `k4`, 4 more")


def test_each_launch_is_waited_for_on_request(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEDSL_SYNC", "1")
    guilty = loaded(name="guilty").bind({"N": 1}, STRIDES, "")
    loaded(name="innocent").bind({"N": 1}, STRIDES, "")((1, 2), (3, 4.0), 0)
    assert driver.calls.count("cuStreamSynchronize") == 1
    driver.failing["cuStreamSynchronize"] = Status.CUDA_ERROR_ILLEGAL_ADDRESS
    error = failure(lambda: guilty.launcher((1, 2), (3, 4.0), 0))
    assert error.code == "cuda-fault-kernel"
    assert "innocent" not in str(error)
    driver.failing["cuStreamSynchronize"] = Status.CUDA_ERROR_INVALID_VALUE
    assert failure(lambda: guilty((1, 2), (3, 4.0), 0)).code == "cuda-call"
    driver.capturing = True
    guilty((1, 2), (3, 4.0), 0)  # a graph cannot wait
    guilty.prepare((1, 2), (3, 4.0), 0)()


# Assertions


def failing_kernel(driver: FakeDriver) -> Any:
    driver.counts["k"] = 1
    kernels = loaded(code(parameters=(FAILURE,)))
    driver.effects["k"] = lambda launch: note(launch.words[0], 1, 41)
    return kernels.bind({"N": 1}, [], "")


def note(record: int, number: int, program: int) -> None:
    """What a kernel does whose assertion fails."""
    words = (ctypes.c_int64 * 2).from_address(record)
    words[:] = number, program


@pytest.mark.parametrize("way", ["call", "launcher", "prepared", "synchronize"])
def test_a_failed_assertion_is_raised_once(driver: FakeDriver, way: str) -> None:
    bound = failing_kernel(driver)
    bound((), (), 0)
    driver.effects.clear()
    ways: dict[str, Any] = {
        "call": lambda: bound((), (), 0),
        "launcher": lambda: bound.launcher((), (), 0),
        "prepared": bound.prepare((), (), 0),
        "synchronize": lambda: synchronize(None, None),
    }
    error = failure(ways[way])
    assert error.code == "assertion-failed"
    assert error.message == "assertion failed: all is well (in program 41 of the grid)"
    assert error.location is not None
    ways[way]()


def test_a_new_record_is_clear(driver: FakeDriver) -> None:
    """Though its memory was not."""
    bound = failing_kernel(driver)
    assert bound.loaded.record.taken() is None
    note(bound.loaded.record.address, -1, 0)  # being written at this moment
    assert bound.loaded.record.taken() is None


def test_kernels_that_cannot_fail_have_no_record(driver: FakeDriver) -> None:
    assert loaded().record is None
    assert process().records == []


def test_an_assertion_is_known_right_away_on_request(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEDSL_SYNC", "1")
    assert failure(lambda: failing_kernel(driver)((), (), 0)).code == "assertion-failed"
