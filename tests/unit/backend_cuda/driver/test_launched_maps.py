"""Tensor maps on a fake driver: what TMA is told of tensors, and when it is told anew."""

from __future__ import annotations

import ctypes
import json
from typing import Any

import pytest

from tests.support.fakes.fake_driver import FakeDriver, fake_driver
from tests.support.fakes.loaded_kernels import code, loaded, tensor_map
from tiledsl.backend_cuda.build.stored_variant import program_from_json, program_to_json
from tiledsl.backend_cuda.driver.launched_maps import MAP_ALIGNMENT
from tiledsl.backend_cuda.frame.kernel_code import CudaSource, KernelParameter
from tiledsl.ir.symbolic import symbol
from tiledsl.support.errors import TileError

N: Any = symbol("N")
MAPPED = code(parameters=(KernelParameter("map", 0), KernelParameter("size", symbol="N"), KernelParameter("map", 1)))
STRIDES = [(104, 1), (1, 64)]


@pytest.fixture
def driver() -> Any:
    with fake_driver(counts={"k": 3}) as fake:
        yield fake


def bound(**symbols: int) -> Any:
    maps = [tensor_map(), tensor_map(1, dtype="f32", shape=(N, 7), axes=(0, 1), box=(8, 1), swizzle=0)]
    return loaded(MAPPED, maps=maps).bind({"N": 3, **symbols}, STRIDES, "")


def refusal(act: Any) -> TileError:
    with pytest.raises(TileError) as caught:
        act()
    assert caught.value.code == "cuda-tensor-map"
    return caught.value


def test_what_the_driver_is_told(driver: FakeDriver) -> None:
    bound()((0x100, 0x200), (), 0)
    first, second = driver.maps
    assert (first.dtype, first.rank, first.address) == ("CU_TENSOR_MAP_DATA_TYPE_BFLOAT16", 2, 0x100)
    assert (first.sizes, first.strides, first.box, first.steps) == ([100, 3], [208], [64, 32], [1, 1])
    assert first.swizzle == "CU_TENSOR_MAP_SWIZZLE_128B"
    assert first.promotion == "CU_TENSOR_MAP_L2_PROMOTION_L2_128B"
    assert first.fill == "CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE"
    assert (second.sizes, second.strides, second.swizzle) == ([3, 7], [256], "CU_TENSOR_MAP_SWIZZLE_NONE")
    assert second.promotion == "CU_TENSOR_MAP_L2_PROMOTION_L2_128B"
    assert driver.launches[0].words == (0x100, 3, 0x200)


def test_rows_at_lines_of_the_cache_are_fetched_two_lines_at_a_time(driver: FakeDriver) -> None:
    loaded(MAPPED, maps=[tensor_map(), tensor_map(1)]).bind({"N": 3}, [(104, 1), (128, 1)], "")((0x100, 0x200), (), 0)
    assert [map_.promotion[-4:] for map_ in driver.maps] == ["128B", "256B"]


def test_maps_are_made_once_for_each_address(driver: FakeDriver) -> None:
    launch = bound()
    for addresses in ((0x100, 0x200), (0x100, 0x200), (0x300, 0x200), (0x100, 0x200)):
        launch.launcher(addresses, (), 0)
    assert [map_.address for map_ in driver.maps] == [0x100, 0x200, 0x300]
    assert [words for one in driver.launches if (words := one.words[::2])] == [
        (0x100, 0x200), (0x100, 0x200), (0x300, 0x200), (0x100, 0x200),
    ]  # fmt: skip


def test_prepared_launches_have_maps_of_their_own(driver: FakeDriver) -> None:
    launch = bound()
    one, two = launch.prepare((0x100, 0x200), (), 0), launch.prepare((0x300, 0x400), (), 0)
    for act in (one, two, one):
        act()
    assert [each.words[0] for each in driver.launches] == [0x100, 0x300, 0x100]


def test_two_kernels_share_a_map(driver: FakeDriver) -> None:
    driver.counts.update(first=1, second=1)
    kernels = [code(name, parameters=(KernelParameter("map", 0),)) for name in ("first", "second")]
    loaded(*kernels, maps=[tensor_map()]).bind({"N": 1}, STRIDES, "")((0x100,), (), 0)
    assert len(driver.maps) == 1
    assert [each.words for each in driver.launches] == [(0x100,), (0x100,)]


def test_maps_are_aligned(driver: FakeDriver) -> None:
    places: list[int] = []
    launch = bound()
    real = driver.cuLaunchKernelEx

    def noting(config: Any, function: Any, words: int, extra: int) -> Any:
        places.extend((ctypes.c_void_p * 3).from_address(words)[::2])
        return real(config, function, words, extra)

    launch._launch = noting  # pyright: ignore[reportPrivateUsage]
    for _ in range(3):
        launch((0x100, 0x200), (), 0)
    assert places
    assert not any(place % MAP_ALIGNMENT for place in places)


def test_addresses_that_are_no_multiple_of_16(driver: FakeDriver) -> None:
    launch = bound()
    error = refusal(lambda: launch((0x108, 0x200), (), 0))
    assert "`t0` by TMA, which cannot be: it starts at an address" in error.message
    launch((0x100, 0x200), (), 0)


@pytest.mark.parametrize(
    ("strides", "reason"),
    [
        ([(104, 2), (1, 64)], "its elements along axis 1 are 4 bytes apart, not 2"),
        ([(-104, 1), (1, 64)], "its stride along axis 0 is -208 bytes"),
        ([(104, 1), (1, 63)], "its stride along axis 1 is 252 bytes"),
    ],
)
def test_strides_that_tma_cannot_take(driver: FakeDriver, strides: Any, reason: str) -> None:
    maps = [tensor_map(), tensor_map(1, dtype="f32", shape=(N, 7), axes=(0, 1), box=(8, 1), swizzle=0)]
    assert reason in refusal(lambda: loaded(MAPPED, maps=maps).bind({"N": 3}, strides, "")).message


def test_axes_of_one_element_may_have_any_stride(driver: FakeDriver) -> None:
    driver.counts["k"] = 1
    kernels = loaded(code(parameters=(KernelParameter("map", 0),)), maps=[tensor_map()])
    kernels.bind({"N": 1}, [(7, 1)], "")((0x100,), (), 0)
    assert driver.maps[0].strides == [16]


def test_a_tensor_of_one_axis(driver: FakeDriver) -> None:
    driver.counts["k"] = 1
    map_ = tensor_map(shape=(N,), axes=(0,), box=(64,), swizzle=0)
    loaded(code(parameters=(KernelParameter("map", 0),)), maps=[map_]).bind({"N": 7}, [(1,)], "")((0x100,), (), 0)
    assert (driver.maps[0].rank, driver.maps[0].sizes, driver.maps[0].box) == (1, [7], [64])


def test_empty_tensors_have_maps_that_nobody_reads(driver: FakeDriver) -> None:
    driver.counts["k"] = 1
    kernel = code(parameters=(KernelParameter("map", 0),), programs=1)
    loaded(kernel, maps=[tensor_map()]).bind({"N": 0}, [(100, 1)], "")((0,), (), 0)
    assert driver.maps[0].sizes == [100, 1]
    assert driver.maps[0].address == 16


def test_maps_are_stored() -> None:
    source = CudaSource("text", (MAPPED,), (), (tensor_map(), tensor_map(1, shape=(N // 2, 7))))
    assert program_from_json(json.loads(json.dumps(program_to_json(source)))) == source
