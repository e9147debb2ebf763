"""Pictures of layouts, and the page about layouts, whose examples are run."""

from __future__ import annotations

import doctest
from pathlib import Path

from tiledsl.ir.dtypes import bf16, f32
from tiledsl.ir.layouts import conversions as layout_conversions
from tiledsl.ir.layouts import layout as layouts
from tiledsl.ir.layouts import pictures as layout_pictures
from tiledsl.ir.layouts.buffer_layout import SharedLayout, Swizzle
from tiledsl.ir.layouts.layout import local, replicate, spatial

PAGE = Path(__file__).parents[4] / "docs" / "layouts.md"


def test_the_examples_of_the_page_are_right() -> None:
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.attempted > 20
    assert result.failed == 0


def test_the_examples_of_the_docstrings_are_right() -> None:
    for module in (layouts, layout_pictures, layout_conversions):
        result = doctest.testmod(module)
        assert result.attempted > 1
        assert result.failed == 0


def test_copies_are_listed() -> None:
    first = [line.split() for line in (replicate(3, 1) * spatial(2)).show().splitlines()]
    assert first[1:] == [["0", "1"], ["0,2,4:0", "1,3,5:0"]]
    many = (replicate(8, 1) * spatial(2)).show().splitlines()[-1]
    assert many.split() == ["0,2,..14:0", "1,3,..15:0"]
    neighbours = (spatial(2) * replicate(4, 1)).show().splitlines()[-1]
    assert neighbours.split() == ["0-3:0", "4-7:0"]


def test_what_is_too_large_is_cut() -> None:
    lines = spatial(8, 4).show(most=2).splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["0", "1", "..."],
        ["0", "0:0", "1:0", "..."],
        ["1", "4:0", "5:0", "..."],
        ["..."],
    ]


def test_of_higher_ranks_the_first_matrices_are_drawn() -> None:
    lines = (spatial(6, 1, 2) * local(1, 2, 1)).show().splitlines()
    assert [line for line in lines if line.startswith("[")] == [f"[{i}, :, :]" for i in range(4)]
    assert lines[2:5] == ["     0    1", "0  0:0  1:0", "1  0:1  1:1"]
    assert lines[-1] == "..."


def test_offsets_and_banks_of_a_buffer() -> None:
    swizzled = SharedLayout((0, 1), 0, Swizzle(1, 4, 3))
    lines = swizzled.show([5, 16], bf16).splitlines()
    assert lines[0] == "byte offset of bf16 [5, 16] in rows(0, 1, swizzle=(1, 4, 3))"
    assert lines[2].split()[1:] == [str(2 * i) for i in range(16)]
    assert lines[6].split()[1:] == [str(128 + (2 * i ^ 16)) for i in range(16)]
    banks = SharedLayout((0,)).show([64], f32, banks=True, most=40).splitlines()[-1].split()
    assert banks == [*(str(i % 32) for i in range(40)), "..."]


def test_a_tile_of_one_element() -> None:
    assert local(1).show().splitlines()[1:] == ["    0", "  0:0"]
