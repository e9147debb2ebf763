"""Small programs in GPU form as text, and running them in the emulator."""

from __future__ import annotations

import linecache
from typing import Any

import numpy as np
import pytest

from tests.support.hopper.hopper_text import Array, Shared, function, launch
from tiledsl.backend_ref.emulator.emulate import emulate
from tiledsl.ir.text.parser import parse_module
from tiledsl.support.errors import TileError

FILE = "small.tir"
SEEDS = (None, 0, 1, 2, 3, 4)
"""Orders to try: in step, and some others."""
LINE = "tensor<f32, [M], unit=0>"


def shared(*lines: str, bytes: int = 4096) -> Shared:
    """Shared memory of `bytes`, with buffers and mbarriers as they are written."""
    return Shared(list(lines), bytes)


def small(
    body: str,
    memory: Shared | None = None,
    *,
    threads: int = 64,
    cluster: int = 1,
    block: int = 64,
    parameters: str = f"%x: {LINE}",
    result: str = "f32, [M]",
) -> str:
    """A function of programs along M, `%m`. It returns `%out`; `%7` is 7 wherever it stands."""
    whole = launch("M", (block,), threads, memory or shared(), body, cluster)
    return function(parameters, result, whole.replace("shared_bytes = 0", "shared_bytes = 4096"))


def run(text: str, *arguments: Any, seed: int | None = 0, addresses: dict[str, int] | None = None) -> tuple[Array, ...]:
    """What the function of `text` returns. Errors show its lines, as those of a file."""
    linecache.cache[FILE] = (len(text), None, text.splitlines(keepends=True), FILE)
    return emulate(parse_module(text, FILE).entry, arguments, seed=seed, addresses=addresses).results


def numbers(count: int = 64) -> Array:
    """0, 1, 2, ... as f32."""
    return np.arange(count, dtype=np.float32)


def fault(text: str, *arguments: Any, seed: int | None = 0) -> TileError:
    """What is wrong with a program."""
    with pytest.raises(TileError) as caught:
        run(text, *(arguments or (numbers(),)), seed=seed)
    return caught.value


def outcome(text: str, *arguments: Any, seed: int | None = 0) -> str:
    """The code of what is wrong with a program in one order; "" if nothing is."""
    try:
        run(text, *(np.copy(one) for one in arguments or (numbers(),)), seed=seed)
    except TileError as error:
        return error.code
    return ""


def outcomes(text: str, *arguments: Any, seeds: tuple[int | None, ...] = SEEDS) -> set[str]:
    """The codes of what is wrong in some orders; "" is among them if nothing is in one of them."""
    return {outcome(text, *arguments, seed=seed) for seed in seeds}


def bank_warnings(text: str, *arguments: Any) -> list[str]:
    """What is said of accesses of shared memory that take turns."""
    linecache.cache[FILE] = (len(text), None, text.splitlines(keepends=True), FILE)
    return [str(one) for one in emulate(parse_module(text, FILE).entry, arguments).warnings]
