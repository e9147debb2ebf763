"""GPU IR by hand: what the texts of programs for Hopper are put together from."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tests.support.compare import assert_close
from tests.support.gpu_cases.gpu_cases import Outcome
from tiledsl.ir.core import Function, Module
from tiledsl.ir.text.parser import parse_module

Array = npt.NDArray[Any]
Random = np.random.Generator
Run = Callable[[Function, list[Any]], Sequence[Array]]
"""Runs a function on arguments, which it may write to; gives what the function returns."""

BYTES = {"f32": 4, "bf16": 2, "f16": 2, "u8": 1, "i8": 1, "f8e4m3": 1, "i32": 4}
SPAN_BITS = {0: 0, 32: 1, 64: 2, 128: 3}


@dataclass(frozen=True)
class HopperProgram:
    """GPU IR with arguments and what it is to compute. Floats may differ as `assert_close` has it for `terms`.

    `wraps`: every stage of its pipelines is used more than once, so that each wait, release and phase matters.
    """

    name: str
    text: str
    arguments: Callable[[Random], list[Any]]
    expected: Callable[[list[Any]], Outcome]
    wraps: bool = True
    relative: float | None = 0.0
    terms: int = 1

    def __str__(self) -> str:
        return self.name

    @cached_property
    def module(self) -> Module:
        """The program, for reading: who changes it clones it first."""
        return parse_module(self.text)

    def check(self, run: Run, *, function: Function | None = None, seed: int = 0) -> None:
        """Runs the program, or another form of it, on arguments drawn by `seed`; fails unless the results are right."""
        arguments = self.arguments(np.random.default_rng(seed))
        wanted = self.expected(self.arguments(np.random.default_rng(seed)))
        returned = run(self.module.entry if function is None else function, arguments)
        got = [*returned, *arrays_of(arguments)]
        for one, want in zip(got, [*wanted.returned, *wanted.arguments], strict=True):
            assert_close(one, want, relative=self.relative, terms=self.terms)


def arrays_of(arguments: Sequence[Any]) -> list[Array]:
    """Those arguments that are no numbers."""
    return [cast(Array, value) for value in arguments if isinstance(value, np.ndarray)]


def returns(compute: Callable[[list[Array]], Array]) -> Callable[[list[Any]], Outcome]:
    """`expected` of a program that returns one array, and leaves its arguments as they are."""
    return lambda arguments: Outcome((compute(arrays_of(arguments)),), tuple(arrays_of(arguments)))


def integers(random: Random, shape: Sequence[int], dtype: Any, most: int = 3) -> Array:
    """Small whole numbers: their products and sums are the same in any order, and in narrow floats."""
    return random.integers(-most, most, shape, endpoint=True).astype(dtype)


# Text


_NUMBER = re.compile(r"%(\d+)\b")


def function(parameters: str, result: str, launch: str, *, facts: str = "") -> str:
    """A function that returns %out, a tensor given as `bf16, [M, N]`. Sizes that it has are `%M`, `%N` and `%K`.

    `%7` is the i64 number 7 wherever it stands, `%f0` is 0 as f32, `%yes` and `%no` are bools.
    """
    dtype, shape = result.split(", ", 1)
    sizes = [size for size in "MNK" if re.search(rf"\[[^\]]*\b{size}\b", parameters)]
    lines = [f"%out = tile.empty() {{shape = {shape}, dtype = {dtype}}}"]
    lines += [f"%{size} = tile.size() {{value = {size}}}" for size in sizes]
    numbers = sorted({int(number) for number in _NUMBER.findall(launch)})
    lines += [f"%{number} = tile.constant() {{value = {number}, dtype = i64}}" for number in numbers]
    lines.append("%f0 = tile.constant() {value = 0.0, dtype = f32}")
    lines.append("%yes = tile.constant() {value = true, dtype = bool}")
    lines.append("%no = tile.constant() {value = false, dtype = bool}")
    used = [line for line in lines if line.startswith("%out") or re.search(line.split(" ")[0] + r"\b", launch)]
    facts = f" facts [{facts}]" if facts else ""
    return _indented("\n".join([f"func @f({parameters}){facts} {{", *used, launch, "tile.return([%out])", "}"]))


def _indented(text: str) -> str:
    """The text with every line indented by the brackets that are open there."""
    lines: list[str] = []
    depth = 0
    for line in text.splitlines():
        line = line.strip()
        if not line:
            continue
        closes = len(line) - len(line.lstrip("}"))
        lines.append("  " * (depth - closes) + line)
        depth += line.count("{") - line.count("}")
    return "\n".join(lines) + "\n"


@dataclass
class Shared:
    """Hands out shared memory, and writes the ops that say so."""

    lines: list[str] = field(default_factory=list[str])
    bytes: int = 0

    def buffer(self, name: str, shape: Sequence[int], dtype: str, span: int = 0, at: int | None = None) -> None:
        """A buffer %`name`, its last axis fastest, swizzled by `span` bytes: in panels where its rows are longer.

        `at`: where it begins, in memory that others have (None: in memory of its own).
        """
        panel = span // BYTES[dtype] if span and shape[-1] * BYTES[dtype] > span else 0
        words = [*map(str, range(len(shape)))]
        words += [f"swizzle=({SPAN_BITS[span]}, 4, 3)"] if span else []
        words += [f"panel={panel}"] if panel else []
        place = self._place(prod(shape) * BYTES[dtype], 1024) if at is None else at
        self.lines.append(
            f"%{name} = gpu.buffer() {{shape = {list(shape)}, dtype = {dtype}, "
            f"layout = rows({', '.join(words)}), offset = {place}}}"
        )

    def barriers(self, name: str, count: int, arrivals: int) -> None:
        place = self._place(8 * count, 8)
        self.lines.append(f"%{name} = gpu.mbarriers() {{count = {count}, arrivals = {arrivals}, offset = {place}}}")

    def _place(self, size: int, alignment: int) -> int:
        place = -(-self.bytes // alignment) * alignment
        self.bytes = place + size
        return place

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def launch(axes: str, blocks: Sequence[int], threads: int, shared: Shared, body: str, cluster: int = 1) -> str:
    """Programs over axes such as `M, N`: each begins at `%m, %n`. Mbarriers are ready when `body` begins."""
    names = axes.split(", ")
    words = f"blocks = {list(blocks)}, threads = {threads}"
    words += f", cluster = {cluster}" if cluster > 1 else ""
    begins = ", ".join(f"%{name.lower()}: i64" for name in names)
    ready = "gpu.barrier() {scope = cluster}" if cluster > 1 else "gpu.barrier()"
    return f"""
gpu.launch([{", ".join(f"%{name}" for name in names)}]) {{{words}, shared_bytes = {shared.bytes}}} body({begins}) {{
{shared.text}
{ready if "gpu.mbarriers" in shared.text else ""}
{body}
}}"""


def role(first: int, threads: int, body: str, registers: int = 0) -> str:
    more = f", registers = {registers}" if registers else ""
    return f"gpu.role() {{first = {first}, threads = {threads}{more}}} body() {{\n{body}\n}}"


def loop(stop: str, body: str, start: str = "%0") -> str:
    """A loop that carries nothing; its index is %i."""
    return f"tile.for({start}, {stop}, %1, []) body(%i: i64) {{\n{body}\ntile.yield([])\n}}"


def turn(stages: int, step: str = "%i") -> str:
    """Of a step: its `%stage`, `%parity` for who waits until it is full, `%other` for who waits until it is empty."""
    return f"""
%stage = tile.map([{step}, %{stages}]) {{fn = mod}}
%turn = tile.map([{step}, %{stages}]) {{fn = floordiv}}
%parity = tile.map([%turn, %2]) {{fn = mod}}
%other = tile.map([%parity, %1]) {{fn = xor}}"""


def mul(name: str, a: str, b: str) -> str:
    return f"%{name} = tile.map([{a}, {b}]) {{fn = mul}}"


def add(name: str, a: str, b: str) -> str:
    return f"%{name} = tile.map([{a}, {b}]) {{fn = add}}"


def sub(name: str, a: str, b: str) -> str:
    return f"%{name} = tile.map([{a}, {b}]) {{fn = sub}}"


# Layouts of warpgroups


def accumulator(rows: int, columns: int) -> str:
    """Of a product: 64 rows for each warpgroup."""
    return f"spatial({rows // 16}, 1) * local(1, {columns // 8}) * local(2, 1) * spatial(8, 4) * local(1, 2)"


def left_operand(rows: int, depth: int) -> str:
    """Of 16 bits, in registers."""
    return (
        f"spatial({rows // 16}, 1) * local(1, {depth // 16}) * local(1, 2) * local(2, 1) * spatial(8, 4) * local(1, 2)"
    )


def tile(dtype: str, rows: int, columns: int, layout: str) -> str:
    return f"tile<{dtype}, [{rows}, {columns}], register, {layout}>"


def row_major(rows: int, columns: int, threads: int, vector: int) -> str:
    """For reads and writes of `vector` neighbours at once."""
    lanes = min(threads, columns // vector)
    assert rows * lanes % threads == 0, "threads do not share it out evenly"
    high, wide = rows * lanes // threads, columns // (lanes * vector)
    return f"local({high}, {wide}) * spatial({threads // lanes}, {lanes}) * local(1, {vector})"
