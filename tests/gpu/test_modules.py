"""Modules on a device: CUDA graphs whose addresses change, streams, captures, files."""

from __future__ import annotations

import gc
import importlib
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import tiledsl
from tests.support.generators.random_lowered import RandomLowered, lowered_graphs
from tests.support.gpu_code.cuda_arrays import Framework, framework
from tests.support.graph_texts import LINEAR, VIEWS
from tiledsl import tile
from tiledsl.api.graphs.check_model import check_model
from tiledsl.api.modules.build_module import build_module
from tiledsl.api.modules.module import Module
from tiledsl.ir.text.parser import parse_module
from tiledsl.runtime.arrays.device_array import DeviceArray
from tiledsl.runtime.calls.outputs import as_tuple
from tiledsl.support.errors import TileError

RANDOM = np.random.default_rng(11)


@pytest.fixture
def torch() -> Any:
    """PyTorch, which most of these tests need."""
    found = framework("torch")
    if isinstance(found, str):
        pytest.skip(found)
    return importlib.import_module("torch")


def array(*shape: int) -> Any:
    return RANDOM.integers(-4, 5, shape).astype(np.float32)


W, B = array(8, 6), array(6)


def linear(arch: str | None = None, **weights: Any) -> Module:
    return build_module(parse_module(LINEAR), {"w": W, "b": B, **weights}, ["x"], arch)


def chain(arch: str | None = None) -> Module:
    return build_module(parse_module(VIEWS), {}, ["x", "y"], arch)


def matmul_text(m: int, k: int, n: int) -> str:
    """Two products in f16, one after the other, large enough for tensor cores, TMA and clusters."""
    callee = (
        LINEAR[LINEAR.index("func @linear") :]
        .replace("tensor<f32", "tensor<f16")
        .replace("dtype = f32}\n  %M", "dtype = f16}\n  %M")
    )
    callee = callee.replace(
        "    %bt = tile.load(%b, [%n])\n", "    %bn = tile.load(%b, [%n])\n    %bt = tile.cast(%bn) {dtype = f32}\n"
    ).replace(
        "    tile.store(%y, [%m, %n], %out)\n",
        "    %h = tile.cast(%out) {dtype = f16}\n    tile.store(%y, [%m, %n], %h)\n",
    )
    return f"""
func @model(%x: tensor<f16, [{m}, {k}]>, %w: tensor<f16, [{k}, {n}]>, %b: tensor<f16, [{n}]>,
            %v: tensor<f16, [{n}, {k}]>, %c: tensor<f16, [{k}]>) {{
  %h = graph.call([%x, %w, %b]) {{callee = linear}} : tensor<f16, [{m}, {n}]>
  %y = graph.call([%h, %v, %c]) {{callee = linear}} : tensor<f16, [{m}, {k}]>
  graph.return([%y])
}}
{callee}
"""


@pytest.mark.parametrize("arch", [None, "built"])
def test_calls_agree_wherever_the_arrays_are(torch: Any, arch: str | None) -> None:
    major, minor = torch.cuda.get_device_capability()
    module = linear(None if arch is None else f"sm_{major}{minor}")
    kept: list[tuple[Any, Any]] = []
    for _ in range(6):
        x = array(5, 8)
        kept.append((module(torch.from_numpy(x).cuda()), x @ W + B))
    for result, expected in kept:
        np.testing.assert_array_equal(result.cpu().numpy(), expected)


@pytest.mark.parametrize("sizes", [(256, 512, 768), (128, 384, 1536), (4096, 1024, 1024), (100, 136, 72)])
def test_products_with_tensor_maps_and_clusters(torch: Any, sizes: tuple[int, int, int]) -> None:
    m, k, n = sizes
    w, b, v, c = (torch.randn(*s, device="cuda").half() * 0.1 for s in ((k, n), (n,), (n, k), (k,)))
    module = build_module(parse_module(matmul_text(m, k, n)), {"w": w, "b": b, "v": v, "c": c}, ["x"])
    kept: list[tuple[Any, Any]] = []
    for _ in range(5):
        x = torch.randn(m, k, device="cuda").half() * 0.1
        h = (x.float() @ w.float() + b.float()).half().float()
        kept.append((module(x), h @ v.float() + c.float()))
    for result, expected in kept:
        torch.testing.assert_close(result.float(), expected, rtol=2e-2, atol=2e-2)


@settings(max_examples=15)
@given(lowered_graphs())
def test_random_graphs(graph: RandomLowered) -> None:
    put = framework("torch")
    if not isinstance(put, Framework):
        pytest.skip(put)
    *names, weight = graph.names
    *arguments, values = graph.arguments()
    module = build_module(graph.module, {weight: values}, names)
    for _ in range(3):
        for actual, wanted in zip(as_tuple(module(*map(put.put, arguments))), graph.expected()):
            np.testing.assert_array_equal(put.take(actual), wanted)


def test_a_model_is_checked_launch_by_launch(torch: Any) -> None:
    major, minor = torch.cuda.get_device_capability()
    values = np.random.default_rng(0).standard_normal((3, 32, 32)).astype(np.float32)

    def model(x: Any) -> Any:
        for weight in values[1:]:
            x = tile.softmax(x @ weight, axis=-1)
        return x, tile.sum(x, axis=0)

    graph = tiledsl.trace(model, tile.spec((32, 32), tile.f32))
    report = check_model(graph, [values[0]], {}, f"sm_{major}{minor}")
    assert report.ok, str(report)


def test_views_of_arguments_and_out(torch: Any) -> None:
    module = linear()
    x, storage = array(5, 8), torch.zeros(10, 12, device="cuda")
    tensor = torch.from_numpy(x).cuda()
    for given_ in (tensor, tensor.t().contiguous().t(), torch.nn.functional.pad(tensor, (1, 0))[:, 1:]):
        for _ in range(3):
            np.testing.assert_array_equal(module(given_).cpu().numpy(), x @ W + B)
            out = storage[::2, ::2]
            assert module(given_, out=out) is out
            np.testing.assert_array_equal(out.cpu().numpy(), x @ W + B)
    shared = tensor.view(-1)[:30].view(5, 6)
    module(tensor, out=shared)
    np.testing.assert_array_equal(shared.cpu().numpy(), x @ W + B)


def test_streams_do_not_race(torch: Any) -> None:
    """Calls on streams that are busy: each reads its argument when its turn comes, and the arena is nobody else's."""
    module = chain()
    streams = [torch.cuda.Stream() for _ in range(3)]
    x, y = array(4, 6), array(6, 4)
    expected = [one.cpu().numpy() for one in module(torch.from_numpy(x).cuda(), torch.from_numpy(y).cuda())]
    tensors = [(torch.zeros(4, 6, device="cuda"), torch.zeros(6, 4, device="cuda")) for _ in streams]
    torch.cuda.synchronize()
    results: list[Any] = []
    for _ in range(4):
        for stream, (a, b) in zip(streams, tensors):
            with torch.cuda.stream(stream):
                torch.cuda._sleep(3_000_000)
                a.copy_(torch.from_numpy(x))
                b.copy_(torch.from_numpy(y))
                results.append(module(a, b))
                a.zero_()
                b.zero_()
    torch.cuda.synchronize()
    for result in results:
        for actual, wanted in zip(result, expected):
            np.testing.assert_array_equal(actual.cpu().numpy(), wanted)


def test_threads(torch: Any) -> None:
    module = linear()
    wrong: list[Any] = []

    def work() -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(50):
                x = array(5, 8)
                result = module(torch.from_numpy(x).cuda()).cpu().numpy()
                if not np.array_equal(result, x @ W + B):
                    wrong.append(x)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_graph_of_the_caller(torch: Any) -> None:
    module, x = chain(), torch.from_numpy(array(4, 6)).cuda()
    y = torch.from_numpy(array(6, 4)).cuda()
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(TileError) as caught:
        _captured(torch, torch.cuda.CUDAGraph(), chain(), x, y)
    assert caught.value.code == "cuda-capture"
    module(x, y)
    results = _captured(torch, graph, module, x, y)
    for _ in range(3):
        x.copy_(torch.from_numpy(array(4, 6)))
        module(y.t().contiguous(), x.t().contiguous())
        graph.replay()
        for actual, wanted in zip(results, module(x, y)):
            assert torch.equal(actual, wanted)


def _captured(torch: Any, graph: Any, module: Module, *arguments: Any) -> Any:
    with torch.cuda.graph(graph):
        return module(*arguments)


def test_other_libraries(cuda: Framework) -> None:
    module, x = linear(), array(5, 8)

    class Plain:
        """An array that has nothing but the CUDA array interface."""

        def __init__(self, tensor: Any) -> None:
            self.tensor = tensor
            self.__cuda_array_interface__ = tensor.__cuda_array_interface__

    for _ in range(4):
        result = module(Plain(cuda.put(x)))
        assert isinstance(result, DeviceArray)
        np.testing.assert_array_equal(result.numpy(), x @ W + B)
    cupy = framework("cupy")
    if isinstance(cupy, Framework):
        np.testing.assert_array_equal(cupy.take(module(cupy.put(x))), x @ W + B)


def test_a_saved_module_runs_here(torch: Any, tmp_path: Path) -> None:
    major, minor = torch.cuda.get_device_capability()
    x = torch.randn(128, 384, device="cuda").half() * 0.1
    weights = {
        n: (torch.randn(*s).half() * 0.1).numpy()
        for n, s in (("w", (384, 768)), ("b", (768,)), ("v", (768, 384)), ("c", (384,)))
    }
    module = build_module(parse_module(matmul_text(128, 384, 768)), weights, ["x"], f"sm_{major}{minor}")
    module.save(tmp_path / "m")
    loaded = tiledsl.load(tmp_path / "m")
    for _ in range(3):
        assert torch.equal(loaded(x), module(x))
    loaded.save(tmp_path / "again")
    assert torch.equal(tiledsl.load(tmp_path / "again")(x), module(x))
    other = "sm_80" if major != 8 else "sm_90"
    with pytest.raises(TileError) as caught:
        build_module(parse_module(LINEAR), {"w": W, "b": B}, ["x"], other)(torch.zeros(5, 8, device="cuda"))
    assert caught.value.code == "module-place"


def test_weights_of_the_caller_are_used_where_they_are(torch: Any) -> None:
    w = torch.nn.Parameter(torch.from_numpy(W).cuda())
    module, x = linear(w=w), torch.from_numpy(array(5, 8)).cuda()
    for _ in range(3):
        np.testing.assert_array_equal(module(x).cpu().numpy(), x.cpu().numpy() @ W + B)


def test_memory_is_given_back(torch: Any) -> None:
    if int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) > 1:
        pytest.skip("other tests use the device at the same time")
    tiledsl.synchronize()
    x = torch.zeros(1 << 12, 1 << 12, device="cuda")

    def formula(x: Any) -> Any:
        return tile.softmax(x, axis=-1)

    free: list[int] = []
    for _ in range(6):
        module = tiledsl.fuse(tiledsl.trace(formula, x)).build()
        for _ in range(3):
            module(x)
        del module
        gc.collect()
        torch.cuda.synchronize()
        free.append(torch.cuda.mem_get_info()[0])
    assert free[-1] > free[1] - (32 << 20)
