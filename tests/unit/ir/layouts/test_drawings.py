"""Drawings of layouts: cells say what the layout says, and those of one thread or bank have one colour."""

from __future__ import annotations

from collections import defaultdict
from xml.etree import ElementTree

import pytest

from tiledsl.ir.dtypes import bf16, f32
from tiledsl.ir.layouts.buffer_layout import SharedLayout, Swizzle
from tiledsl.ir.layouts.drawings import register_drawing, shared_drawing
from tiledsl.ir.layouts.layout import RegisterLayout, local, replicate, spatial

SVG = "{http://www.w3.org/2000/svg}"


def cells(drawing: str) -> list[tuple[str, str]]:
    """The text and the colour of each cell, row by row."""
    root = ElementTree.fromstring(drawing)
    colours = [rect.attrib["fill"] for rect in root.iter(f"{SVG}rect")]
    texts = [text.text or "" for text in root.iter(f"{SVG}text") if text.attrib["fill"] == "#1b1f24"]
    assert len(colours) == len(texts)
    return list(zip(texts, colours))


def title(drawing: str) -> str:
    return next(ElementTree.fromstring(drawing).iter(f"{SVG}text")).text or ""


def columns_beside_each_other(drawing: str) -> bool:
    """No cell lies on another one, and all lie within the drawing."""
    root = ElementTree.fromstring(drawing)
    boxes = [
        tuple(float(rect.attrib[key]) for key in ("x", "y", "width", "height")) for rect in root.iter(f"{SVG}rect")
    ]
    inside = all(x + w <= float(root.attrib["width"]) and y + h <= float(root.attrib["height"]) for x, y, w, h in boxes)
    return inside and len({(x, y) for x, y, _, _ in boxes}) == len(boxes)


ACCUMULATOR = local(2, 1) * spatial(8, 4) * local(1, 2)
LAYOUTS = [
    ACCUMULATOR,
    ACCUMULATOR.reduced([1]),
    spatial(2, 3),
    replicate(4, 1) * local(5),
    spatial(3, 2, 2) * local(1, 2, 1),
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_cells_are_those_of_the_picture(layout: RegisterLayout) -> None:
    matrix = layout.show().split("[1, :, :]")[0].splitlines()[2 + (layout.rank > 2) :]
    pictured = [word for line in matrix for word in line.split() if ":" in word]
    drawing = register_drawing(layout)
    assert [text for text, _ in cells(drawing)] == pictured
    assert columns_beside_each_other(drawing)
    assert str(layout) in title(drawing)


def test_a_thread_has_one_colour() -> None:
    by_thread: dict[str, set[str]] = defaultdict(set)
    for text, colour in cells(register_drawing(local(2, 1) * spatial(8, 8))):
        by_thread[text.split(":")[0]].add(colour)
    assert all(len(colours) == 1 for colours in by_thread.values())
    assert len({colour for colours in by_thread.values() for colour in colours}) == 64


def test_a_bank_has_one_colour() -> None:
    layout = SharedLayout((0, 1), 0, Swizzle(3, 4, 3))
    drawing = shared_drawing(layout, (8, 64), bf16, most=64)
    by_bank: dict[int, set[str]] = defaultdict(set)
    for number, (text, colour) in enumerate(cells(drawing)):
        assert int(text) == layout.offset((8, 64), bf16, (number // 64, number % 64))
        by_bank[int(text) // 4 % 32].add(colour)
    assert len(by_bank) == 32
    assert all(len(colours) == 1 for colours in by_bank.values())
    assert len({colour for colours in by_bank.values() for colour in colours}) == 32
    assert columns_beside_each_other(drawing)


def test_what_is_too_large_is_cut_and_says_so() -> None:
    drawing = register_drawing(spatial(8, 4) * local(8, 16), most=16)
    assert len(cells(drawing)) == 256
    assert title(drawing).endswith("; the first 16 rows and 16 columns")
    stages = shared_drawing(SharedLayout((0, 1, 2)), (3, 4, 8), f32)
    assert len(cells(stages)) == 32
    assert title(stages).endswith("; here [0, :, :]")


def test_a_layout_shows_itself() -> None:
    assert ACCUMULATOR._repr_svg_() == register_drawing(ACCUMULATOR)  # pyright: ignore[reportPrivateUsage]
