"""Index arithmetic as text means what the layouts say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiledsl.backend_cuda.functions.index_text import dim_text, table_text, thread_text
from tiledsl.ir.layouts.layout import RegisterLayout, local, replicate, spatial
from tiledsl.ir.symbolic import ceildiv, maximum, minimum, symbol

LAYOUTS = [
    local(2, 1) * spatial(8, 4) * local(1, 2),
    spatial(4, 1) * local(1, 16) * local(2, 1) * spatial(8, 4) * local(1, 2),
    local(3, 5) * spatial(6, 7) * local(2, 1),
    replicate(4, 2) * spatial(1, 32) * local(1, 8),
    local(1, 2) * spatial(1, 256) * local(1, 8),
]


def value_of(text: str, **names: int) -> int:
    """A C expression of numbers that are not negative, as Python computes it."""
    return int(eval(text.replace("/", "//"), {}, names))


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_thread_text(layout: RegisterLayout) -> None:
    for axis in range(layout.rank):
        text = thread_text(layout.thread_digits, axis, "thread")
        for thread in range(layout.threads):
            assert value_of(text, thread=thread) == layout.thread_coordinates(thread)[axis]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_table_text(layout: RegisterLayout) -> None:
    for axis in range(layout.rank):
        table = [layout.slot_coordinates(slot)[axis] for slot in range(layout.slots)]
        text = table_text(table, "s")
        assert [value_of(text, s=slot) for slot in range(layout.slots)] == table
        assert [value_of(table_text(table, str(slot))) for slot in range(layout.slots)] == table


@given(st.lists(st.tuples(st.integers(2, 4), st.integers(0, 9)), max_size=4), st.integers(0, 5), st.floats(0.0, 1.0))
def test_table_text_of_any_digits(digits: list[tuple[int, int]], start: int, share: float) -> None:
    """The first part of a table as well: rounds of a loop need not end where digits do."""
    table = [start]
    for size, factor in digits:
        table = [value * factor + low for value in range(size) for low in table]
    table = table[: max(1, int(share * len(table)))]
    text = table_text(table, "s")
    assert [value_of(text, s=slot) for slot in range(len(table))] == table


def test_a_table_that_is_no_sum_of_digits() -> None:
    with pytest.raises(ValueError, match="no sum of digits"):
        table_text([0, 1, 3, 3], "s")


def test_dim_text() -> None:
    m, n = symbol("M"), symbol("N")
    used: list[str] = []

    def function(name: str) -> str:
        used.append(name)
        return name

    def text(dim: object) -> str:
        return dim_text(dim, lambda name: name, function)  # pyright: ignore[reportArgumentType]

    assert text(2 * m * n - 3) == "2 * M * N - 3"
    assert text(1 << 40) == "1099511627776LL"
    assert text(ceildiv(m, 4)) == "floor_div(M + 3, 4)"
    assert text(minimum(m, 8) + maximum(n, m)) in ("larger(M, N) + smaller(8, M)", "larger(M, N) + smaller(M, 8)")
    assert used == ["floor_div", "larger", "smaller"]
