"""Modules on CUDA devices: a fake driver, whose graphs run programs by the reference executor."""

from __future__ import annotations

import gc
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings

from tests.support.fakes.fake_cuda import FakeCuda, FakeTensor, aligned, fake_cuda
from tests.support.fakes.fake_driver import OWN_STREAM, Status
from tests.support.generators.random_lowered import RandomLowered, lowered_graphs
from tests.support.graph_texts import LINEAR, VIEWS
from tiledsl.api.modules.build_module import build_module
from tiledsl.api.modules.module import Module
from tiledsl.api.schedules.module_weights import WeightCache
from tiledsl.ir.text.parser import parse_module
from tiledsl.runtime.arrays.cuda_arrays import ArrayReader
from tiledsl.runtime.calls.outputs import as_tuple
from tiledsl.runtime.programs import memory_plan
from tiledsl.support.errors import TileError

RANDOM = np.random.default_rng(5)


def array(*shape: int) -> Any:
    return RANDOM.integers(-4, 5, shape).astype(np.float32)


INVALID = Status.CUDA_ERROR_INVALID_VALUE
W, B = array(8, 6), array(6)


@pytest.fixture
def cuda() -> Any:
    with fake_cuda(devices=2) as fake:
        yield fake


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules of one launch are graphs too."""
    monkeypatch.setattr(memory_plan, "MOST_DIRECT", 0)


def linear(arch: str | None = None, **weights: Any) -> Module:
    return build_module(parse_module(LINEAR), {"w": W, "b": B, **weights}, ["x"], arch)


def check(module: Module, cuda: FakeCuda, x: Any, **named: Any) -> FakeTensor:
    given_back = module(cuda.tensor(x, **named))
    np.testing.assert_array_equal(given_back.host, x @ W + B)
    return given_back


@pytest.mark.usefixtures("graphs")
@pytest.mark.parametrize("arch", ["sm_90", None])
def test_the_first_call_launches_and_later_ones_replay_a_graph(cuda: FakeCuda, arch: str | None) -> None:
    module = linear(arch)
    kept = [check(module, cuda, array(5, 8)) for _ in range(4)]
    assert len({result.host.ctypes.data for result in kept}) == 4
    assert cuda.driver.calls.count("cuGraphInstantiate") == 1
    assert cuda.driver.calls.count("cuGraphLaunch") == 3
    assert cuda.driver.calls.count("cuGraphExecKernelNodeSetParams") == 2
    assert {run.stream for run in cuda.runs} == {0}


@pytest.mark.usefixtures("graphs")
def test_calls_on_the_same_memory_tell_the_graph_nothing(cuda: FakeCuda) -> None:
    module, x, out = linear(), cuda.tensor(array(5, 8)), cuda.tensor(array(5, 6))
    for _ in range(4):
        assert module(x, out=out) is out
    np.testing.assert_array_equal(out.host, x.host @ W + B)
    assert cuda.driver.calls.count("cuGraphExecKernelNodeSetParams") == 0


def test_tensors_like_those_of_an_earlier_call_go_the_short_way(
    cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    reader = ArrayReader.read

    def noted(self: ArrayReader, value: object, parameter: str) -> Any:
        read.append(parameter)
        return reader(self, value, parameter)

    monkeypatch.setattr(ArrayReader, "read", noted)
    module = linear()
    for _ in range(4):
        check(module, cuda, array(5, 8))
    first = len(read)
    cuda.torch.streams[0] = 7
    check(module, cuda, array(5, 8))
    assert len(read) == first
    assert cuda.runs[-1].stream == 7
    check(module, cuda, array(5, 8), offset=4)  # not aligned
    transposed = FakeTensor(aligned(array(8, 5)).T)
    np.testing.assert_array_equal(module(transposed).host, transposed.host @ W + B)
    assert len(read) > first
    with pytest.raises(TileError) as caught:
        module(cuda.tensor(array(5, 9)))
    assert caught.value.code == "module-shape"


@pytest.mark.usefixtures("graphs")
def test_a_graph_whose_nodes_cannot_be_changed_is_made_anew(cuda: FakeCuda) -> None:
    module = linear()
    for _ in range(2):
        check(module, cuda, array(5, 8))
    cuda.driver.failing["cuGraphExecKernelNodeSetParams"] = INVALID
    check(module, cuda, array(5, 8))
    assert cuda.driver.calls.count("cuGraphInstantiate") == 2
    assert cuda.driver.calls.count("cuGraphExecDestroy") == 1


@pytest.mark.usefixtures("graphs")
def test_after_a_failed_change_all_kernels_are_told(cuda: FakeCuda) -> None:
    module = linear()
    for _ in range(2):
        check(module, cuda, array(5, 8))
    x, out = cuda.tensor(array(5, 8)), cuda.tensor(array(5, 6))
    cuda.driver.failing.update(dict.fromkeys(("cuGraphExecKernelNodeSetParams", "cuStreamBeginCapture"), INVALID))
    with pytest.raises(TileError):
        module(x, out=out)
    cuda.driver.failing.clear()
    module(x, out=out)
    np.testing.assert_array_equal(out.host, x.host @ W + B)


@pytest.mark.usefixtures("graphs")
def test_a_call_while_the_caller_captures_launches_kernels(cuda: FakeCuda) -> None:
    module = linear()
    for _ in range(2):
        check(module, cuda, array(5, 8))
    cuda.driver.capturing = True
    cuda.torch.streams[0] = 7
    check(module, cuda, array(5, 8))
    assert cuda.driver.calls.count("cuGraphLaunch") == 1
    assert cuda.runs[-1].stream == 7


def test_the_first_call_is_not_captured(cuda: FakeCuda) -> None:
    cuda.driver.capturing = True
    with pytest.raises(TileError) as caught:
        linear()(cuda.tensor(array(5, 8)))
    assert caught.value.code == "cuda-capture"


def test_arrays_of_other_libraries_and_their_streams(cuda: FakeCuda) -> None:
    module = linear()
    for _ in range(3):
        x = array(5, 8)
        result = module(cuda.array(x, stream=9))
        np.testing.assert_array_equal(result.numpy(), x @ W + B)
    assert {run.stream for run in cuda.runs} == {9}


def test_arguments_that_are_not_row_major_or_aligned_are_copied(cuda: FakeCuda) -> None:
    module = linear()
    for _ in range(3):
        x = array(5, 8)
        check(module, cuda, x, offset=4)
        transposed = FakeTensor(aligned(x.T).T)
        np.testing.assert_array_equal(module(transposed).host, x @ W + B)
    assert all(run.pointers[0] % 16 == 0 for run in cuda.runs)


def test_weights_go_to_a_device_once(cuda: FakeCuda) -> None:
    module = linear(w=cuda.tensor(W, requires_grad=True))
    for device in (0, 0, 1):
        if device == 0:
            check(module, cuda, array(5, 8), device=device)
    assert cuda.driver.calls.count("cuMemcpyHtoDAsync") == 1
    with pytest.raises(TileError) as caught:
        module(cuda.tensor(array(5, 8), device=1))
    assert caught.value.code == "array-devices"
    both = linear()
    for device in (0, 1, 0, 1):
        check(both, cuda, array(5, 8), device=device)
    assert cuda.driver.calls.count("cuMemcpyHtoDAsync") == 5


def test_modules_of_one_graph_share_weights(cuda: FakeCuda) -> None:
    cache, before = WeightCache(), len(cuda.driver.memory)
    for arch in ("sm_90", None):
        module = build_module(parse_module(LINEAR), {"w": W, "b": B}, ["x"], arch, cache=cache)
        for _ in range(3):
            check(module, cuda, array(5, 8))
    assert cuda.driver.calls.count("cuMemcpyHtoDAsync") == 2
    assert len(cuda.driver.memory) >= before + 2
    del module, cache
    gc.collect()
    assert len(cuda.driver.memory) == before


def test_narrow_weights_of_pytorch_in_cpu_memory(cuda: FakeCuda) -> None:
    text = "func @model(%w: tensor<bf16, [2, 2]>) {\n graph.return([%w])\n}\n"
    values: Any = np.asarray([[1.5, -2], [0, 4]], ml_dtypes.bfloat16)
    module = build_module(parse_module(text), {"w": FakeTensor(values.T, -1, requires_grad=True)}, [], "cpu")
    result = module()
    assert result.dtype == values.dtype
    assert result.tolist() == values.T.tolist()


def test_out_on_the_device(cuda: FakeCuda) -> None:
    module = linear()
    x = cuda.tensor(array(5, 8))
    expected = x.host @ W + B
    strided = FakeTensor(aligned(np.zeros((10, 12), np.float32))[::2, ::2])
    for _ in range(2):
        assert module(x, out=strided) is strided
        np.testing.assert_array_equal(strided.host, expected)
    shared = FakeTensor(x.host.reshape(-1)[:30].reshape(5, 6))
    module(x, out=shared)
    np.testing.assert_array_equal(shared.host, expected)


@pytest.mark.usefixtures("graphs")
def test_memory_is_given_back(cuda: FakeCuda) -> None:
    module = build_module(parse_module(VIEWS), {}, ["x", "y"], "sm_90")
    before = len(cuda.driver.memory)
    for _ in range(3):
        module(cuda.tensor(array(4, 6)), cuda.tensor(array(6, 4)))
    assert len(cuda.driver.memory) > before
    del module
    gc.collect()
    assert len(cuda.driver.memory) == before
    assert not cuda.driver.graphs
    assert OWN_STREAM not in {run.stream for run in cuda.runs}


@pytest.mark.parametrize("most_direct", [0, 100])
@settings(max_examples=10)
@given(lowered_graphs())
def test_random_graphs(most_direct: int, graph: RandomLowered) -> None:
    *names, weight = graph.names
    *arguments, values = graph.arguments()
    expected = graph.expected()
    with fake_cuda() as cuda, pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory_plan, "MOST_DIRECT", most_direct)
        module = build_module(graph.module, {weight: values}, names, "sm_90")
        for turn in range(6):
            tensors = [cuda.tensor(argument) for argument in arguments]
            out = None if turn < 3 else tuple(cuda.tensor(np.zeros_like(wanted)) for wanted in expected)
            results = module(*tensors, out=out)
            for actual, wanted in zip(as_tuple(results), expected):
                assert isinstance(actual, FakeTensor)
                np.testing.assert_array_equal(actual.host, wanted)
