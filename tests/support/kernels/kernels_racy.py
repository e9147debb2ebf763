"""Kernels, as plain functions, whose programs get in each other's way, and such that only look as if theirs did."""

from __future__ import annotations

from typing import Any

from tiledsl import tile

# Refused when compiling


def store_of_each(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    y = tile.empty(M, x.dtype)
    for m, n in tile.grid(M, N):
        y[m] = tile.sum(x[m, n], axis=1)
    return y


def store_in_a_branch(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    y = tile.empty(M, x.dtype)
    for m, n in tile.grid(M, N):
        total = tile.zeros((m,), tile.f32)
        for _ in range(3):
            total += x[m, n].sum(axis=1)
        if m.start > 0:
            y[m] = total
    return y


def store_of_coordinates(x: tile.Tensor) -> None:
    N = x.shape[0]
    for n in tile.grid(N, block=1):
        x[3] = n


def update(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    y = tile.zeros(M, x.dtype)
    for m, n in tile.grid(M, N):
        y[m] += tile.sum(x[m, n], axis=1)
    return y


def update_by_choice(x: tile.Tensor) -> tile.Tensor:
    N = x.shape[0]
    found = tile.zeros(1, tile.i32)
    for n in tile.grid(N):
        found[0] = tile.where(tile.any(x[n] > 3), 1, found[0])
    return found


def update_of_gathered(x: tile.Tensor, rows: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    M = rows.shape[0]
    y = tile.zeros(M, x.dtype)
    for m, n in tile.grid(M, N):
        y[rows[m] + 1] = tile.maximum(y[rows[m] + 1], tile.max(x[m, n], axis=1))
    return y


def stencil_in_place(a: tile.Tensor) -> None:
    M, N = a.shape
    for m, n in tile.grid(M, N):
        a[m, n] = 0.5 * (a[m, n - 1] + a[m, n + 1])


def prefix_in_place(x: tile.Tensor) -> None:
    N = x.shape[0]
    for n in tile.grid(N, block=1):
        x[n] = x[n] + x[n - 1]


def row_in_place(a: tile.Tensor) -> None:
    M, N = a.shape
    for m, n in tile.grid(M, N):
        a[m, n] = a[m, n] / tile.sum(a[m, :], axis=1, keepdims=True)


def looped_row_in_place(a: tile.Tensor) -> None:
    M, N = a.shape
    for m, n in tile.grid(M, N):
        total = tile.zeros((m,), tile.f32)
        for k in tile.range(N):
            total += tile.sum(a[m, k], axis=1)
        a[m, n] = a[m, n] / total[:, None]


def column_in_place(a: tile.Tensor) -> None:
    M, N = a.shape
    for m, n in tile.grid(M, N):
        a[m, n] = a[m, n] - a[m, 0][:, None]


def transposed_in_place(a: tile.Tensor) -> None:
    N, N = a.shape
    for m, n in tile.grid(N, N):
        a[m, n] = a[n, m].T


def two_stores(y: tile.Tensor) -> None:
    M, N = y.shape
    for m, n in tile.grid(M, N):
        y[m, n] = 1
        y[m, n + 1] = 2


def zero_and_add(x: tile.Tensor) -> tile.Tensor:
    N = x.shape[0]
    y = tile.empty(1, x.dtype)
    for n in tile.grid(N):
        y[0] = 0
        tile.atomic_add(y[0], tile.sum(x[n]))
    return y


def add_and_read(x: tile.Tensor) -> tile.Tensor:
    N = x.shape[0]
    total, y = tile.zeros(1, x.dtype), tile.empty(N, x.dtype)
    for n in tile.grid(N):
        tile.atomic_add(total[0], tile.sum(x[n]))
        y[n] = x[n] / total[0]
    return y


def unwritten_update(x: tile.Tensor) -> tile.Tensor:
    N = x.shape[0]
    y = tile.empty(N, x.dtype)
    for n in tile.grid(N):
        y[n] += x[n]
    return y


def unwritten_atomic(x: tile.Tensor) -> tile.Tensor:
    N = x.shape[0]
    y = tile.empty(1, x.dtype)
    for n in tile.grid(N):
        tile.atomic_add(y[0], tile.sum(x[n]))
    return y


RACY: dict[Any, tuple[str, str, str]] = {
    store_of_each: ("race-store", "along `n`", "`for n in tile.range(N):`"),
    store_in_a_branch: ("race-store", "along `n`", "`for n in tile.range(N):`"),
    store_of_coordinates: ("race-store", "along `n`", "`for n in tile.range(N):`"),
    update: ("race-update", "along `n`", "`tile.atomic_add`"),
    update_by_choice: ("race-update", "along `n`", "`for n in tile.range(N):`"),
    update_of_gathered: ("race-update", "along `n`", "`tile.atomic_max`"),
    stencil_in_place: ("race-neighbour", "along `n`", "another tensor"),
    prefix_in_place: ("race-neighbour", "along `n`", "another tensor"),
    row_in_place: ("race-neighbour", "along `n`", "another tensor"),
    looped_row_in_place: ("race-neighbour", "along `n`", "another tensor"),
    column_in_place: ("race-neighbour", "along `n`", "another tensor"),
    transposed_in_place: ("race-neighbour", "along `m`", "another tensor"),
    two_stores: ("race-stores", "along `n`", "one program alone"),
    zero_and_add: ("race-atomic", "along `n`", "a grid of its own"),
    add_and_read: ("race-atomic", "along `n`", "a grid of its own"),
    unwritten_update: ("uninitialised", "`y` is read here", "`tile.zeros`"),
    unwritten_atomic: ("uninitialised", "`y` is read here", "`tile.zeros`"),
}
"""For each kernel the code of its error, and what message and fix say."""


# Wrong for some arguments: found by running them


def neighbours_by_choice(x: tile.Tensor) -> None:
    N = x.shape[0]
    for n in tile.grid(N):
        x[n] = tile.where(x[n] > 2, x[n - 1], x[n])


def atomics_by_rows(x: tile.Tensor, rows: tile.Tensor) -> tile.Tensor:
    N = x.shape[0]
    N = rows.shape[0]
    y = tile.zeros(N, x.dtype)
    for n in tile.grid(N):
        tile.atomic_add(y[rows[n]], x[n] + y[n])
    return y


def half_written(x: tile.Tensor) -> tile.Tensor:
    N = x.shape[0]
    y, z = tile.empty(N, x.dtype), tile.empty(N, x.dtype)
    for n in tile.grid(N // 2):
        y[n] = x[n]
    for n in tile.grid(N):
        z[n] = y[n]
    return z


def by_blocks(x: tile.Tensor) -> tile.Tensor:
    N = x.shape[0]
    y = tile.empty(N, x.dtype)
    for n in tile.grid(N):
        y[n] = x[n] / n.size
    return y


# Sound


def flag(x: tile.Tensor) -> tile.Tensor:
    """All programs that store at all store the same."""
    N = x.shape[0]
    found = tile.zeros(1, tile.i32)
    for n in tile.grid(N):
        if tile.any(x[n] > 3):
            found[0] = 1
    return found


def same_from_all(x: tile.Tensor) -> tuple[tile.Tensor, tile.Tensor]:
    M, N = x.shape
    y, z = tile.empty(M, x.dtype), tile.empty((M, N), x.dtype)
    for m, n in tile.grid(M, N):
        y[m] = tile.sum(x[m, :], axis=1)
        z[m, n] = x[m, n] - y[m][:, None]
    return y, z


def first_program(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    y = tile.empty(M, x.dtype)
    for m, n in tile.grid(M, N):
        if n.start == 0:
            y[m] = tile.sum(x[m, :], axis=1)
    return y


def in_place(a: tile.Tensor) -> None:
    M, N = a.shape
    for m, n in tile.grid(M, N):
        a[m, n] = tile.exp(a[m, n])
        a[m, n] += 1


def rows_in_place(a: tile.Tensor) -> None:
    M, N = a.shape
    for m in tile.grid(M):
        total = tile.zeros((m,), tile.f32)
        for k in tile.range(N):
            total += tile.sum(a[m, k], axis=1)
        for k in tile.range(N):
            a[m, k] = a[m, k] / total[:, None]


def red_and_black(a: tile.Tensor) -> None:
    """What a program reads of others they store as it was."""
    M, N = a.shape
    for m, n in tile.grid(M, N):
        odd = (m.index[:, None] + n.index) % 2 == 1
        beside = a[m - 1, n] + a[m + 1, n] + a[m, n - 1] + a[m, n + 1]
        a[m, n] = tile.where(odd, 0.25 * beside, a[m, n])


def permuted(x: tile.Tensor, order: tile.Tensor) -> tile.Tensor:
    N = x.shape[0]
    N = order.shape[0]
    y = tile.zeros(N, x.dtype)
    for n in tile.grid(N):
        y[order[n]] = x[n]
    return y


def one_program(x: tile.Tensor) -> tile.Tensor:
    M, _N = x.shape
    y = tile.empty(M, x.dtype)
    for m, one in tile.grid(M, 1):
        y[m] = tile.sum(x[m, :], axis=1) + one.start
    for m, n in tile.grid(M, 5, block=(tile.auto, 8)):
        y[m] += n.start
    return y


def in_turn(x: tile.Tensor) -> tile.Tensor:
    """Grids wait for each other."""
    M, N = x.shape
    y, z = tile.empty(M, x.dtype), tile.empty((M, N), x.dtype)
    for m in tile.grid(M):
        y[m] = tile.sum(x[m, :], axis=1)
    for m, n in tile.grid(M, N):
        z[m, n] = x[m + 1, n] - y[m][:, None]
    for m, n in tile.grid(M, N):
        x[m, n] = z[m + 1, n]
    return z


def in_one_program(x: tile.Tensor) -> None:
    N = x.shape[0]
    for _ in tile.grid(1, block=1):
        for i in range(1, N):
            x[i] = x[i] + x[i - 1]


def halves(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    y = tile.empty((M, 2 * N), x.dtype)
    for m, n in tile.grid(M, N):
        y[m, n] = x[m, n]
        y[m, n + N] = -x[m, n]
    return y


def counted(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    y = tile.zeros(M, x.dtype)
    for m, n in tile.grid(M, N):
        tile.atomic_add(y[m], tile.sum(x[m, n], axis=1))
    return y


def either(x: tile.Tensor, left: int) -> tile.Tensor:
    """The load and the store are never both made."""
    N = x.shape[0]
    y = tile.zeros(N, x.dtype)
    for n in tile.grid(N):
        if left > 0:
            x[n] = 1
        else:
            y[n] = x[n + 1]
    return y


def later_turn(x: tile.Tensor) -> tile.Tensor:
    """What is read was stored in an earlier turn."""
    N = x.shape[0]
    y = tile.empty(N, x.dtype)
    for n in tile.grid(N):
        for i in range(N):
            if i > 0:
                y[n] += x[n]
            else:
                y[n] = x[n]
    return y


SOUND: dict[Any, dict[str, int]] = {
    flag: {"x": 1}, same_from_all: {"x": 2}, first_program: {"x": 2}, in_place: {"a": 2}, rows_in_place: {"a": 2},
    red_and_black: {"a": 2}, permuted: {"x": 1, "order": 1}, one_program: {"x": 2}, in_turn: {"x": 2},
    in_one_program: {"x": 1}, halves: {"x": 2}, counted: {"x": 2}, either: {"x": 1, "left": 0}, later_turn: {"x": 1},
}  # fmt: skip
"""The ranks of the arguments; 0 for a number."""
RANKS: dict[Any, dict[str, int]] = {
    store_of_each: {"x": 2}, store_in_a_branch: {"x": 2}, store_of_coordinates: {"x": 1}, update: {"x": 2},
    update_by_choice: {"x": 1}, update_of_gathered: {"x": 2, "rows": 1}, stencil_in_place: {"a": 2},
    prefix_in_place: {"x": 1}, row_in_place: {"a": 2}, looped_row_in_place: {"a": 2}, column_in_place: {"a": 2},
    transposed_in_place: {"a": 2}, two_stores: {"y": 2}, zero_and_add: {"x": 1}, add_and_read: {"x": 1},
    unwritten_update: {"x": 1}, unwritten_atomic: {"x": 1},
}  # fmt: skip
INTEGERS = ("order", "rows")
"""Arguments that are tensors of coordinates."""
