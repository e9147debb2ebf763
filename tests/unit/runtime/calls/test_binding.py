"""Sizes from shapes."""

from __future__ import annotations

import pytest

from tiledsl.ir.text.parser import parse_module
from tiledsl.runtime.calls.binding import bind_sizes, new_shape
from tiledsl.runtime.programs.interface import Interface, Result, interface_of
from tiledsl.runtime.programs.stored_interface import interface_from_json, interface_to_json
from tiledsl.support.errors import TileShapeError

TEXT = """
func @f(%x: tensor<f32, [N, 3]>, %n: i64, %y: tensor<f16, [2 * N + M, M], unit=1>) facts [M % 16 == 0] {
  %a = tile.empty() {shape = [N * M, N // 2], dtype = f32}
  %b = tile.empty() {shape = [M - N], dtype = i64}
  %t = tile.load(%y, [:, :])
  tile.store(%y, [:, :], %t)
  %part = tile.load(%y, [:, 1:M - 20])
  tile.return([%b, %y, %b])
}
"""


@pytest.fixture
def interface() -> Interface:
    return interface_of(parse_module(TEXT).entry)


def test_interface(interface: Interface) -> None:
    assert [str(p) for p in interface.parameters] == ["f32[N, 3]", "i64", "f16[M + 2 * N, M]"]
    assert [t.written for t in interface.tensors] == [False, True]
    assert [t.name for t in interface.new_tensors] == ["a", "b"]
    assert interface.results == (Result("new", 1), Result("parameter", 1), Result("new", 1))
    assert interface.outputs == (1,)
    assert [(part.axis, str(part.size)) for part in interface.part_sizes] == [(1, "M - 21")]


def test_sizes(interface: Interface) -> None:
    sizes = bind_sizes(interface, [(5, 3), (42, 32)])
    assert sizes == {"N": 5, "M": 32}
    assert [new_shape(tensor, sizes) for tensor in interface.new_tensors] == [(160, 2), (27,)]


@pytest.mark.parametrize(
    ("shapes", "code"),
    [
        ([(5, 4), (42, 32)], "size-fixed"),
        ([(5, 3), (41, 32)], "size-expression"),
        ([(5, 3), (41, 31)], "size-divisible"),
        ([(5, 3), (26, 16)], "part-negative"),
    ],
)
def test_sizes_that_do_not_fit(interface: Interface, shapes: list[tuple[int, ...]], code: str) -> None:
    with pytest.raises(TileShapeError) as caught:
        bind_sizes(interface, shapes)
    assert caught.value.code == code


def test_negative_size(interface: Interface) -> None:
    with pytest.raises(TileShapeError, match="`M - N` = -4"):
        new_shape(interface.new_tensors[1], {"N": 20, "M": 16})


def test_interface_survives_json(interface: Interface) -> None:
    assert interface_from_json(interface_to_json(interface)) == interface
