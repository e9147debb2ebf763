"""What layouts are written as, and what is said of text that is none."""

from __future__ import annotations

import pytest

from tiledsl.ir.layouts.buffer_layout import Layout, SharedLayout, Swizzle
from tiledsl.ir.layouts.layout import local, replicate, spatial
from tiledsl.ir.layouts.text import LayoutTextError, parse_layout


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        (local(2, 1) * spatial(8, 4) * local(1, 2), "local(2, 1) * spatial(8, 4) * local(1, 2)"),
        (spatial(1, 8) * spatial(4, 1), "spatial(1, 8) * spatial(4, 1)"),
        (spatial(4) * replicate(8, 1), "spatial(4) * replicate(8)"),
        (local(2) * local(4), "local(8)"),
        (local(1, 1), "local(1, 1)"),
        (replicate(2, 3) * replicate(16, 3), "replicate(32) * local(1, 1, 1)"),
        ((local(2, 1) * spatial(8, 4) * local(1, 2)).reduced([1]), "local(2) * spatial(8) * replicate(4)"),
        ((spatial(16) * local(4)).widened(0, 1, 6), "spatial(16/4) * local(6)"),
        (
            (spatial(16, 8) * local(4, 8)).widened(0, 2, 9),
            "spatial(16/8, 1) * local(9, 1) * spatial(1, 8) * local(1, 8)",
        ),
        (SharedLayout((0, 1)), "rows(0, 1)"),
        (SharedLayout((1, 0), 8), "rows(1, 0, padding=8)"),
        (SharedLayout((1, 0), panel=16), "rows(1, 0, panel=16)"),
        (SharedLayout((0, 1), 0, Swizzle(3, 4, 3), 64), "rows(0, 1, swizzle=(3, 4, 3), panel=64)"),
        (SharedLayout((0, 1, 2), 4, Swizzle(3, 4, 3)), "rows(0, 1, 2, padding=4, swizzle=(3, 4, 3))"),
    ],
)
def test_text(layout: Layout, text: str) -> None:
    assert str(layout) == text
    assert parse_layout(text) == layout


def test_spaces_do_not_matter_and_factors_need_not_be_the_printer_s() -> None:
    assert parse_layout(" local( 2,1 )*\nlocal(2, 3) * local(1 , 1)") == local(4, 1) * local(1, 3)
    assert parse_layout("rows(\n0, 1,padding = 8 , swizzle = ( 3,4 , 3 ))") == SharedLayout((0, 1), 8, Swizzle(3, 4, 3))
    assert parse_layout("replicate(4)", 2) == replicate(4, 2)


@pytest.mark.parametrize(
    ("text", "problem", "fix"),
    [
        ("local(2, 1) * spatail(8, 4)", "there is no factor `spatail`", "did you mean `spatial`?"),
        ("lines(2)", "there is no factor `lines`", "factors are: local, spatial, replicate"),
        ("local(2) * spatial(8, 4)", "factors of different ranks", "give every factor one size per axis"),
        ("replicate(4)", "`replicate` does not tell the rank", "give every factor one size per axis"),
        ("replicate(4, 2) * local(1)", "`replicate` takes one number", "write how many copies"),
        ("local(2, 0)", "a size of `local` is 0", "write sizes of at least 1"),
        ("spatial(4/6) * local(6)", "runs of 6 that begin 6 apart do not overlap", "leave out the `/`"),
        ("local(4/2)", "`4/2` is no size", "write whole numbers"),
        ("local(2, M)", "`M` is no size", "write whole numbers"),
        ("local(2,)", "`` is no size", "write whole numbers"),
        ("local(2) * 3", "`3` is no factor", "write such as"),
        ("local(2) spatial(3)", "`*` is missing before `spatial(3)`", "write such as"),
        ("rows(0, 1) * local(1, 1)", "a layout of shared memory has no factors", "write `rows(...)` alone"),
        ("rows(0, 2)", "the axes of `rows` are not each named once", "fastest last"),
        ("rows(0, 1, pading=8)", "`rows` is given what it does not take", "write `padding=8`"),
        ("rows(0, swizzle=3)", "`rows` is given what it does not take", "write `padding=8`"),
        ("rows(0, 1, panel=(8, 8))", "`rows` is given what it does not take", "`panel=64`"),
        ("rows(0, panel=8)", "panels are of two axes, and not padded", "leave out `panel`"),
        ("rows(0, 1, padding=8, panel=8)", "panels are of two axes, and not padded", "leave out `panel`"),
        ("rows(0, swizzle=(3, 4, 2))", "`swizzle=(3, 4, 2)` is none", "write (bits, base, shift)"),
    ],
)
def test_what_is_no_layout(text: str, problem: str, fix: str) -> None:
    with pytest.raises(LayoutTextError) as caught:
        parse_layout(text)
    assert caught.value.problem == problem
    assert fix in caught.value.fix
