"""GPU programs, made from a seed, in which threads exchange values through shared memory; with no barriers."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

THREADS = 64
LAYOUTS = ("spatial(64)", "replicate(2) * spatial(32) * local(2)", "local(2) * replicate(2) * spatial(32)")
"""Of tiles of 64 elements."""
BUFFERS = {"p": 64, "q": 128, "r": 512}
"""Elements of the buffers that programs begin with."""


@dataclass
class SharedProgram:
    """What is written so far. `filled`: parts of buffers that hold values on every path, as (buffer, offset)."""

    random: random.Random
    lines: list[str] = field(default_factory=list[str])
    filled: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    sizes: dict[str, int] = field(default_factory=lambda: dict(BUFFERS))
    names: int = 0
    results: int = 0
    depth: int = 0
    loops: list[str] = field(default_factory=list[str])
    """What counts their iterations, in steps of 64."""

    def fresh(self) -> str:
        self.names += 1
        return f"v{self.names}"

    def say(self, line: str) -> None:
        self.lines.append("  " * (self.depth + 2) + line)

    def number(self, value: int) -> str:
        name = self.fresh()
        self.say(f"%{name} = tile.constant() {{value = {value}, dtype = i64}}")
        return f"%{name}"

    def load(self) -> tuple[str, str]:
        """A tile of 64 elements of %a, and its layout."""
        layout, name = self.random.choice(LAYOUTS), self.fresh()
        start = self.number(64 * self.random.randrange(4))
        for loop in self.loops:
            shifted = self.fresh()
            self.say(f"%{shifted} = tile.map([{start}, {loop}]) {{fn = add}}")
            start = f"%{shifted}"
        self.say(f"%{name} = gpu.load(%a, [{start}], []) {{axes = [0], shape = [64], layout = {layout}}}")
        return f"%{name}", layout

    def keep(self, tile: str) -> None:
        """Stores a tile where nothing else goes."""
        start = self.number(64 * self.results)
        self.results += 1
        self.say(f"gpu.store(%out, [{start}], {tile}, []) {{axes = [0]}}")

    def part(self) -> tuple[str, int]:
        """A buffer, and where 64 elements of it begin."""
        buffer = self.random.choice(sorted(self.sizes))
        return buffer, 64 * self.random.randrange(min(2, self.sizes[buffer] // 64))

    # Statements

    def write(self) -> None:
        buffer, start = self.part()
        tile, _ = self.load()
        self.say(f"gpu.write(%{buffer}, {tile}, [{self.number(start)}]) {{places = [0]}}")
        self.filled.add((buffer, start))

    def read(self) -> None:
        known = sorted(part for part in self.filled if part[0] in self.sizes)
        if not known:
            return self.write()
        buffer, start = self.random.choice(known)
        tile, layout = self.fresh(), self.random.choice(LAYOUTS)
        at = self.number(start)
        self.say(f"%{tile} = gpu.read(%{buffer}, [{at}]) {{places = [0], shape = [64], layout = {layout}}}")
        self.keep(f"%{tile}")
        return None

    def copy(self) -> None:
        """Something else happens while the copy is under way: a fold, whose memory is its own."""
        buffer, start = self.part()
        source, at = self.number(64 * self.random.randrange(4)), self.number(start)
        self.say(f"gpu.copy(%a, [{source}], [], %{buffer}, [{at}])")
        self.say(
            "  {axes = [0], places = [0], vector = 2, shape = [64], layout = replicate(2) * spatial(32) * local(2)}"
        )
        self.say("gpu.commit()")
        if self.random.random() < 0.5:
            self.fold()
        self.say("gpu.wait() {groups = 0}")
        self.filled.add((buffer, start))

    def fold(self) -> None:
        scratch, total, tile = self.fresh(), self.fresh(), self.fresh()
        source, layout = self.load()
        self.say(f"%{scratch} = gpu.buffer() {{shape = [1280], dtype = u8, layout = rows(0)}}")
        self.say(f"%{total} = gpu.reduce([{source}], %{scratch}) {{axes = [0], fn = max}}")
        self.say(f"%{tile} = tile.broadcast(%{total}) {{shape = [64]}} : tile<f32, [64], register, {layout}>")
        self.keep(f"%{tile}")

    def buffer(self) -> None:
        """One more, for the rest of this body."""
        name = self.fresh()
        self.say(f"%{name} = gpu.buffer() {{shape = [512], dtype = f32, layout = rows(0)}}")
        self.sizes[name] = 512

    def loop(self) -> None:
        before, sizes = set(self.filled), dict(self.sizes)
        stop, step = self.number(self.random.choice((0, 128, 128))), self.number(64)
        self.loops.append(f"%{self.fresh()}")
        self.say(f"tile.for(%zero, {stop}, {step}, []) body({self.loops[-1]}: i64) {{")
        self.body()
        self.say("}")
        self.loops.pop()
        self.filled, self.sizes = before, sizes

    def branch(self) -> None:
        before, sizes = set(self.filled), dict(self.sizes)
        condition = self.fresh()
        self.say(f"%{condition} = tile.constant() {{value = {self.random.choice(('true', 'false'))}, dtype = bool}}")
        self.say(f"tile.if(%{condition}) then() {{")
        self.body()
        self.filled, self.sizes = set(before), dict(sizes)
        self.say("} otherwise() {")
        self.body()
        self.say("}")
        self.filled, self.sizes = before, sizes

    def body(self) -> None:
        self.depth += 1
        self.statements(self.random.randrange(1, 4))
        self.say("tile.yield([])")
        self.depth -= 1

    def statements(self, count: int) -> None:
        simple = [self.write, self.read, self.read, self.copy, self.fold, self.buffer]
        nested = [self.loop, self.loop, self.branch] if self.depth < 2 else []
        for _ in range(count):
            self.random.choice(simple + nested)()


def random_shared_program(seed: int) -> tuple[str, int]:
    """A program with the parameters %a, of 512 elements, and %out, and how many elements %out must have."""
    program = SharedProgram(random.Random(seed))
    program.statements(program.random.randrange(2, 9))
    buffers = [
        f"    %{name} = gpu.buffer() {{shape = [{size}], dtype = f32, layout = rows(0)}}"
        for name, size in BUFFERS.items()
    ]
    lines = "\n".join([*buffers, *program.lines])
    text = f"""
func @f(%a: tensor<f32, [512], unit=0>, %out: tensor<f32, [N], unit=0>) {{
  %zero = tile.constant() {{value = 0, dtype = i64}}
  %one = tile.constant() {{value = 1, dtype = i64}}
  gpu.launch([%one]) {{blocks = [1], threads = {THREADS}}} body(%program: i64) {{
{lines}
  }}
  tile.return([])
}}
"""
    return text, max(1, program.results) * 64
