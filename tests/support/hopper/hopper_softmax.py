"""Attention with its softmax for Hopper, by hand: what schedules are tried with. The texts are GPU IR.

One warp loads queries, keys and values by TMA; warpgroups multiply, 64 rows of queries each. The scores of a block are
multiplied while the values of the block before are, and those are waited for when the softmax of the block is done.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tests.support.hopper.hopper_text import Array, HopperProgram, Random, Shared, accumulator, returns, role, tile
from tiledsl.ir.layouts.layout import RegisterLayout
from tiledsl.ir.layouts.text import parse_layout

ROWS = 64
"""Of queries, for each warpgroup."""


@dataclass(frozen=True)
class Attention:
    """softmax(Q K.T / sqrt(depth)) V of q[H, M, depth], k and v[H, N, depth]; out[H, M, depth].

    `keys` per block. `apart`: each warpgroup that multiplies is a role of its own, and skips blocks that none of its
    rows sees. `turns`: warpgroups take turns to begin products. `programs`: as many programs that go through all tiles
    (0: one program per tile). `own_out`: results have a buffer of their own, not that of the queries. `whole`: N is a
    multiple of `keys`. `section`: so many heads are gone through together. `longest_first`: of causal tiles.
    """

    depth: int
    keys: int
    consumers: int = 2
    stages: int = 2
    causal: bool = False
    apart: bool = False
    turns: bool = False
    programs: int = 0
    query_stages: int = 1
    own_out: bool = False
    whole: bool = False
    section: int = 1
    back_and_forth: bool = False
    registers: bool = True

    def __str__(self) -> str:
        words = [f"{self.rows}x{self.keys}x{self.depth}, {self.stages} stages"]
        words += [
            name for name in ("causal", "apart", "turns", "own_out", "whole", "back_and_forth") if getattr(self, name)
        ]
        words += [f"{self.programs} programs"] if self.programs else []
        words += [f"{self.query_stages} of queries"] if self.query_stages > 1 else []
        words += [f"sections of {self.section}"] if self.section > 1 else []
        return ", ".join(words)

    @property
    def rows(self) -> int:
        """Of a tile."""
        return ROWS * self.consumers

    @property
    def role_rows(self) -> int:
        return ROWS if self.apart else self.rows

    @property
    def role_threads(self) -> int:
        return 128 if self.apart else 128 * self.consumers

    # Types

    @property
    def scores(self) -> str:
        return tile("f32", self.role_rows, self.keys, accumulator(self.role_rows, self.keys))

    @property
    def narrow_scores(self) -> str:
        return tile("bf16", self.role_rows, self.keys, accumulator(self.role_rows, self.keys))

    @property
    def flags(self) -> str:
        return tile("bool", self.role_rows, self.keys, accumulator(self.role_rows, self.keys))

    @property
    def numbers(self) -> str:
        return tile("i32", self.role_rows, self.keys, accumulator(self.role_rows, self.keys))

    @property
    def sums(self) -> str:
        return tile("f32", self.role_rows, self.depth, accumulator(self.role_rows, self.depth))

    @property
    def narrow_sums(self) -> str:
        return tile("bf16", self.role_rows, self.depth, accumulator(self.role_rows, self.depth))

    @property
    def parts(self) -> str:
        """Sums of what each thread has of a row, two numbers apiece."""
        return tile("f32", self.role_rows, 8, accumulator(self.role_rows, 8))

    def _layout(self) -> RegisterLayout:
        found = parse_layout(accumulator(self.role_rows, self.keys))
        assert isinstance(found, RegisterLayout)
        return found

    @property
    def column(self) -> str:
        """One number per row."""
        return tile("f32", self.role_rows, 1, str(self._layout().reduced([1], True)))

    # Shared memory

    def shared(self) -> Shared:
        shared = Shared()
        shared.buffer("qs", (self.query_stages, self.rows, self.depth), "bf16", 128)
        shared.buffer("ks", (self.stages, self.keys, self.depth), "bf16", 128)
        shared.buffer("vs", (self.stages, self.keys, self.depth), "bf16", 128)
        shared.buffer("os", (self.rows, self.depth), "bf16", 128, at=None if self.own_out else 0)
        assert self.own_out or self.query_stages == 1
        groups = self.consumers if self.apart else 1
        shared.barriers("full_q", self.query_stages * groups, 1)
        shared.barriers("empty_q", self.query_stages * groups, 4 * self.consumers // groups)
        for name in "kv":
            shared.barriers(f"full_{name}", self.stages, 1)
            shared.barriers(f"empty_{name}", self.stages, 4 * self.consumers)
        return shared

    # Which tile, which blocks

    @property
    def tile_of_program(self) -> str:
        """%h, %m (the first row), %blocks (of keys) of tile %t."""
        lines = ["%turned = tile.map([%t, %0]) {fn = add}"]
        if self.back_and_forth and self.programs:
            lines = [
                f"""%round = tile.map([%t, %{self.programs}]) {{fn = floordiv}}
            %odd = tile.map([%round, %1]) {{fn = and}}
            %round1 = tile.map([%round, %1]) {{fn = add}}
            %after = tile.map([%round1, %{self.programs}]) {{fn = mul}}
            %full = tile.map([%after, %tiles]) {{fn = le}}
            %isodd = tile.map([%odd, %1]) {{fn = eq}}
            %swap = tile.map([%full, %isodd]) {{fn = and}}
            %begin = tile.map([%round, %{self.programs}]) {{fn = mul}}
            %last1 = tile.map([%after, %1]) {{fn = sub}}
            %sum1 = tile.map([%last1, %begin]) {{fn = add}}
            %back = tile.map([%sum1, %t]) {{fn = sub}}
            %turned = tile.map([%swap, %back, %t]) {{fn = where}}"""
            ]
        if self.section > 1:
            lines.append(f"""%per = tile.map([%mblocks, %{self.section}]) {{fn = mul}}
            %which = tile.map([%turned, %per]) {{fn = floordiv}}
            %within = tile.map([%turned, %per]) {{fn = mod}}
            %row = tile.map([%within, %{self.section}]) {{fn = floordiv}}
            %head = tile.map([%within, %{self.section}]) {{fn = mod}}
            %heads = tile.map([%which, %{self.section}]) {{fn = mul}}
            %h = tile.map([%heads, %head]) {{fn = add}}""")
        else:
            lines.append("""%row = tile.map([%turned, %mblocks]) {fn = mod}
            %h = tile.map([%turned, %mblocks]) {fn = floordiv}""")
        if self.causal:
            lines.append("""%lastrow = tile.map([%mblocks, %1]) {fn = sub}
            %mblock = tile.map([%lastrow, %row]) {fn = sub}""")
        else:
            lines.append("%mblock = tile.map([%row, %0]) {fn = add}")
        lines.append(f"%m = tile.map([%mblock, %{self.rows}]) {{fn = mul}}")
        if self.causal:
            lines.append(self._blocks("blocks", "%m", self.rows))
        else:
            lines.append("%blocks = tile.map([%allblocks, %0]) {fn = add}")
        return "\n".join(lines)

    def _blocks(self, name: str, first: str, rows: int) -> str:
        """How many blocks some of the `rows` from `first` on see."""
        return f"""%{name}_a = tile.map([{first}, %{rows}]) {{fn = add}}
        %{name}_b = tile.map([%{name}_a, %later]) {{fn = add}}
        %{name}_c = tile.map([%{name}_b, %N]) {{fn = minimum}}
        %{name}_d = tile.map([%{name}_c, %{self.keys - 1}]) {{fn = add}}
        %{name} = tile.map([%{name}_d, %{self.keys}]) {{fn = floordiv}}"""

    def step(self, number: str, stage: str = "stage", parity: str = "parity", other: str = "other") -> str:
        """Of a step: its stage, and the parities for who waits until it is full, or empty."""
        if self.stages & (self.stages - 1) == 0:
            shift = self.stages.bit_length() - 1
            return f"""%{stage} = tile.map([{number}, %{self.stages - 1}]) {{fn = and}}
            %{stage}_turn = tile.map([{number}, %{shift}]) {{fn = shr}}
            %{parity} = tile.map([%{stage}_turn, %1]) {{fn = and}}
            %{other} = tile.map([%{parity}, %1]) {{fn = xor}}"""
        return f"""%{stage} = tile.map([{number}, %{self.stages}]) {{fn = mod}}
        %{stage}_turn = tile.map([{number}, %{self.stages}]) {{fn = floordiv}}
        %{parity} = tile.map([%{stage}_turn, %1]) {{fn = and}}
        %{other} = tile.map([%{parity}, %1]) {{fn = xor}}"""

    @property
    def query_step(self) -> str:
        return f"""%qstage = tile.map([%number, %{self.query_stages}]) {{fn = mod}}
        %qturn = tile.map([%number, %{self.query_stages}]) {{fn = floordiv}}
        %qparity = tile.map([%qturn, %1]) {{fn = and}}
        %qother = tile.map([%qparity, %1]) {{fn = xor}}"""

    def over_tiles(self, body: str) -> str:
        """`body` for each tile %t of a program; %base steps were before it, and %number tiles."""
        if not self.programs:
            return f"""%t = tile.map([%p, %0]) {{fn = add}}
            %base = tile.map([%0, %0]) {{fn = add}}
            %number = tile.map([%0, %0]) {{fn = add}}
            {body}"""
        return f"""%ends, %endn = tile.for(%p, %tiles, %{self.programs}, [%0, %0])
        body(%t: i64, %base: i64, %number: i64) {{
        {body}
        %base1 = tile.map([%base, %blocks]) {{fn = add}}
        %number1 = tile.map([%number, %1]) {{fn = add}}
        tile.yield([%base1, %number1])
        }}"""

    # The producer

    @property
    def producer(self) -> str:
        box = f"{{axes = [-1, 0, 1], places = [1, 2], shape = [{self.keys}, {self.depth}]}}"

        def load(name: str, number: str, tag: str) -> str:
            """Block `number` from the end, or from the start, of the tile."""
            return f"""%step_{tag} = tile.map([%base, {number}]) {{fn = add}}
            {self.step(f"%step_{tag}", f"stage_{tag}", f"parity_{tag}", f"other_{tag}")}
            %end_{tag} = tile.map([%blocks, %1]) {{fn = sub}}
            %block_{tag} = tile.map([%end_{tag}, {number}]) {{fn = sub}}
            %at_{tag} = tile.map([%block_{tag}, %{self.keys}]) {{fn = mul}}
            gpu.mbarrier_wait(%empty_{name}, %stage_{tag}, %other_{tag})
            gpu.mbarrier_expect(%full_{name}, %stage_{tag}) {{bytes = {self.keys * self.depth * 2}}}
            gpu.tma_load(%{name}, [%h, %at_{tag}, %0], %{name}s, [%stage_{tag}, %0, %0], %full_{name}, %stage_{tag})
                {box}"""

        queries: list[str] = []
        groups = self.consumers if self.apart else 1
        for group in range(groups):
            rows = self.role_rows
            queries.append(f"""%q_a{group} = tile.map([%qstage, %{groups}]) {{fn = mul}}
            %q_at{group} = tile.map([%q_a{group}, %{group}]) {{fn = add}}
            %q_row{group} = tile.map([%m, %{group * ROWS}]) {{fn = add}}
            gpu.mbarrier_wait(%empty_q, %q_at{group}, %qother)
            gpu.mbarrier_expect(%full_q, %q_at{group}) {{bytes = {rows * self.depth * 2}}}
            gpu.tma_load(%q, [%h, %q_row{group}, %0], %qs, [%qstage, %{group * ROWS}, %0], %full_q, %q_at{group})
                {{axes = [-1, 0, 1], places = [1, 2], shape = [{rows}, {self.depth}]}}""")
        body = f"""{self.tile_of_program}
        {self.query_step}
        {load("k", "%0", "k0")}
        {chr(10).join(queries)}
        tile.for(%1, %blocks, %1, []) body(%i: i64) {{
        {load("k", "%i", "k")}
        %before = tile.map([%i, %1]) {{fn = sub}}
        {load("v", "%before", "v")}
        tile.yield([])
        }}
        %final = tile.map([%blocks, %1]) {{fn = sub}}
        {load("v", "%final", "v1")}"""
        return self.over_tiles(body)

    # The consumers

    def consumer(self, group: int) -> str:
        first = ROWS * group
        q_index = f"""%q_a = tile.map([%qstage, %{self.consumers if self.apart else 1}]) {{fn = mul}}
        %q_at = tile.map([%q_a, %{group}]) {{fn = add}}"""
        skip = self.apart and self.causal
        parts = [self.tile_of_program, self.query_step, q_index]
        parts.append(f"%mine = tile.map([%m, %{first}]) {{fn = add}}")
        if skip:
            parts.append(self._blocks("seen", "%mine", ROWS))
            parts.append("%seen1 = tile.map([%seen, %1]) {fn = maximum}")
            parts.append(f"""%skipped = tile.map([%blocks, %seen1]) {{fn = sub}}
            tile.for(%0, %skipped, %1, []) body(%i: i64) {{
            %step = tile.map([%base, %i]) {{fn = add}}
            {self.step("%step")}
            gpu.mbarrier_wait(%full_k, %stage, %parity)
            gpu.mbarrier_arrive(%empty_k, %stage) {{by = warp}}
            gpu.mbarrier_wait(%full_v, %stage, %parity)
            gpu.mbarrier_arrive(%empty_v, %stage) {{by = warp}}
            {self._sync(group)}
            {self._arrive(group)}
            tile.yield([])
            }}""")
        else:
            parts.append("%skipped = tile.map([%0, %0]) {fn = add}")
        if self.causal:  # blocks that all rows see
            parts.append(f"""%see = tile.map([%mine, %later]) {{fn = add}}
            %see1 = tile.map([%see, %1]) {{fn = add}}
            %clean0 = tile.map([%see1, %{self.keys}]) {{fn = floordiv}}
            %clean1 = tile.map([%clean0, %0]) {{fn = maximum}}
            %dirty0 = tile.map([%blocks, %clean1]) {{fn = sub}}
            %least = tile.map([%skipped, %1]) {{fn = add}}
            %dirty = tile.map([%dirty0, %least]) {{fn = maximum}}""")
        parts.append(self._first(group))
        carried = f"%o: {self.sums}, %p1: {self.narrow_scores}, %top: {self.column}, %total: {self.parts}"
        masked_too = "%o0, %pp0, %top0, %total0"
        parts.append("%first1 = tile.map([%skipped, %1]) {fn = add}")
        if self.causal:
            parts.append(f"""%oa, %pa, %topa, %totala = tile.for(%first1, %dirty, %1, [{masked_too}])
            body(%i: i64, {carried}) {{
            {self._turn(group, masked=True)}
            }}""")
            start, masked_too = "%dirty", "%oa, %pa, %topa, %totala"
        else:
            start = "%first1"
        parts.append(f"""%ob, %pb, %topb, %totalb = tile.for({start}, %blocks, %1, [{masked_too}])
        body(%i: i64, {carried}) {{
        {self._turn(group, masked=False)}
        }}""")
        parts.append(self._end(group))
        begin = ""
        if self.turns and group == self.consumers - 1:
            begin = "gpu.named_barrier() {id = 1, threads = 256, action = arrive}\n"
        return begin + self.constants + self.over_tiles("\n".join(parts)) + "\ngpu.bulk_wait() {groups = 0}"

    @property
    def constants(self) -> str:
        scale = math.log2(math.e) * self.depth**-0.5
        rows = self.role_rows
        return f"""%scale = tile.constant() {{value = {scale!r}, dtype = f32}}
        %lowest = tile.constant() {{value = -1e30, dtype = f32}}
        %never = tile.constant() {{value = -inf, dtype = f32}}
        %one = tile.constant() {{value = 1.0, dtype = f32}}
        %zero = tile.constant() {{value = 0.0, dtype = f32}}
        %scales = tile.broadcast(%scale) {{shape = [{rows}, {self.keys}]}} : {self.scores}
        %junk = tile.broadcast(%zero) {{shape = [{rows}, {self.keys}]}} : {self.scores}
        %row_scales = tile.broadcast(%scale) {{shape = [{rows}, 1]}} : {self.column}
        """

    def _multiply_scores(self, group: int, stage: str) -> str:
        return f"""%s1 = gpu.wgmma(%qs, [%qstage, %{group * ROWS}, %0], %ks, [{stage}, %0, %0], %junk, %no)
            {{depth = {self.depth}, a_axes = [1, 2], b_axes = [2, 1], instruction = m64n{self.keys}k16_bf16_f32}}
        gpu.wgmma_commit()"""

    def _multiply_values(self, stage: str, p: str, acc: str, result: str, accumulate: str = "") -> str:
        more = f", {accumulate}" if accumulate else ""
        return f"""%{result} = gpu.wgmma({p}, [], %vs, [{stage}, %0, %0], {acc}{more})
            {{depth = {self.keys}, b_axes = [1, 2], instruction = m64n{self.depth}k16_bf16_f32}}
        gpu.wgmma_commit()"""

    def _mask(self, masked: bool) -> str:
        """%s3 from %s2 of step %i."""
        place = f"""%end1 = tile.map([%blocks, %1]) {{fn = sub}}
        %block = tile.map([%end1, %i]) {{fn = sub}}
        %at = tile.map([%block, %{self.keys}]) {{fn = mul}}
        """
        if masked and self.causal:
            layout = self._layout()
            rows, keys = self.role_rows, self.keys
            of_columns, of_rows = layout.reduced([0], False), layout.reduced([1], False)
            with_axis = layout.reduced([0], True), layout.reduced([1], True)
            return (
                place
                + f"""%c64 = gpu.arange() {{layout = {of_columns}}}
            %c32 = tile.cast(%c64) {{dtype = i32}} : tile<i32, [{keys}], register, {of_columns}>
            %c1 = tile.reshape(%c32) {{shape = [1, {keys}]}} : tile<i32, [1, {keys}], register, {with_axis[0]}>
            %cs = tile.broadcast(%c1) {{shape = [{rows}, {keys}]}} : {self.numbers}
            %r64 = gpu.arange() {{layout = {of_rows}}}
            %r32 = tile.cast(%r64) {{dtype = i32}} : tile<i32, [{rows}], register, {of_rows}>
            %see2 = tile.map([%see, %at]) {{fn = sub}}
            %see32 = tile.cast(%see2) {{dtype = i32}}
            %see3 = tile.broadcast(%see32) {{shape = [{rows}]}} : tile<i32, [{rows}], register, {of_rows}>
            %r2 = tile.map([%r32, %see3]) {{fn = add}} : tile<i32, [{rows}], register, {of_rows}>
            %r1 = tile.reshape(%r2) {{shape = [{rows}, 1]}} : tile<i32, [{rows}, 1], register, {with_axis[1]}>
            %rs = tile.broadcast(%r1) {{shape = [{rows}, {keys}]}} : {self.numbers}
            %sees = tile.map([%cs, %rs]) {{fn = le}} : {self.flags}
            %nevers = tile.broadcast(%never) {{shape = [{rows}, {keys}]}} : {self.scores}
            %s3 = tile.map([%sees, %s2, %nevers]) {{fn = where}} : {self.scores}"""
            )
        if masked and not self.whole:
            return (
                place
                + """%left = tile.map([%N, %at]) {fn = sub}
            %s3 = gpu.pad(%s2, [%left], %never) {axes = [1]}"""
            )
        return ""

    def _softmax(self, top: str, masked: bool) -> str:
        """%e (f32), %higher and %sum from %s2; `top` is the largest score before."""
        mask = self._mask(masked)
        s = "%s3" if mask else "%s2"
        rows, keys = self.role_rows, self.keys
        lines = [
            mask,
            f"""%peak = gpu.reduce([{s}]) {{axes = [1], fn = max, keepdims = true}}
        %higher = tile.map([{top}, %peak]) {{fn = maximum}} : {self.column}
        %scaled_top = tile.map([%higher, %row_scales]) {{fn = mul}} : {self.column}
        %tops = tile.broadcast(%scaled_top) {{shape = [{rows}, {keys}]}} : {self.scores}
        %scaled = tile.map([{s}, %scales]) {{fn = mul}} : {self.scores}
        %below = tile.map([%scaled, %tops]) {{fn = sub}} : {self.scores}
        %e = tile.map([%below]) {{fn = exp2}} : {self.scores}""",
        ]
        for number in range(0, keys, 8):
            lines.append(f"%e{number} = gpu.slice(%e) {{starts = [0, {number}], layout = {accumulator(rows, 8)}}}")
            so_far = f"%sum{number - 8}" if number > 8 else "%e0"
            if number:
                lines.append(f"%sum{number} = tile.map([{so_far}, %e{number}]) {{fn = add}} : {self.parts}")
        return "\n".join(lines)

    @property
    def _sum(self) -> str:
        return f"%sum{self.keys - 8}"

    def _sync(self, group: int) -> str:
        return f"gpu.named_barrier() {{id = {1 + group}, threads = 256}}" if self.turns else ""

    def _arrive(self, group: int) -> str:
        after = 1 + (group + 1) % self.consumers
        return f"gpu.named_barrier() {{id = {after}, threads = 256, action = arrive}}" if self.turns else ""

    def _first(self, group: int) -> str:
        rows = self.role_rows
        text = f"""%i = tile.map([%skipped, %0]) {{fn = add}}
        %step0 = tile.map([%base, %i]) {{fn = add}}
        {self.step("%step0", "stage0", "parity0", "other0")}
        gpu.mbarrier_wait(%full_q, %q_at, %qparity)
        gpu.mbarrier_wait(%full_k, %stage0, %parity0)
        {self._sync(group)}
        gpu.wgmma_fence()
        {self._multiply_scores(group, "%stage0")}
        {self._arrive(group)}
        %s2 = gpu.wgmma_wait([%s1]) {{groups = 0}}
        gpu.mbarrier_arrive(%empty_k, %stage0) {{by = warp}}
        %no_top = tile.broadcast(%lowest) {{shape = [{rows}, 1]}} : {self.column}
        {self._softmax("%no_top", True)}
        %pp0 = tile.cast(%e) {{dtype = bf16}} : {self.narrow_scores}
        %o0 = tile.broadcast(%zero) {{shape = [{rows}, {self.depth}]}} : {self.sums}
        """
        given = {"higher": "top0", self._sum[1:]: "total0", "pp0": "pp0", "o0": "o0"}
        return renamed(text, given, "_0")

    def _turn(self, group: int, masked: bool) -> str:
        rows = self.role_rows
        rescale = f"""%gap = tile.map([%top, %higher]) {{fn = sub}} : {self.column}
        %scaled_gap = tile.map([%gap, %row_scales]) {{fn = mul}} : {self.column}
        %rescale = tile.map([%scaled_gap]) {{fn = exp2}} : {self.column}
        %rescale8 = tile.broadcast(%rescale) {{shape = [{rows}, 8]}} : {self.parts}
        %total1 = tile.map([%total, %rescale8]) {{fn = mul}} : {self.parts}
        %total2 = tile.map([%total1, {self._sum}]) {{fn = add}} : {self.parts}
        %rescales = tile.broadcast(%rescale) {{shape = [{rows}, {self.depth}]}} : {self.sums}"""
        land = """%o2, %kept = gpu.wgmma_wait([%o1, %p1]) {groups = 0}
        gpu.mbarrier_arrive(%empty_v, %last) {by = warp}"""
        return f"""%step = tile.map([%base, %i]) {{fn = add}}
        {self.step("%step")}
        %step1 = tile.map([%step, %1]) {{fn = sub}}
        {self.step("%step1", "last", "phase", "other1")}
        gpu.mbarrier_wait(%full_k, %stage, %parity)
        {self._sync(group)}
        gpu.wgmma_fence()
        {self._multiply_scores(group, "%stage")}
        gpu.mbarrier_wait(%full_v, %last, %phase)
        {self._multiply_values("%last", "%p1", "%o", "o1")}
        {self._arrive(group)}
        %s2 = gpu.wgmma_wait([%s1]) {{groups = 1}}
        gpu.mbarrier_arrive(%empty_k, %stage) {{by = warp}}
        {self._softmax("%top", masked)}
        {rescale}
        {land}
        %o3 = tile.map([%o2, %rescales]) {{fn = mul}} : {self.sums}
        %p2 = tile.cast(%e) {{dtype = bf16}} : {self.narrow_scores}
        tile.yield([%o3, %p2, %higher, %total2])"""

    def _end(self, group: int) -> str:
        release = "gpu.mbarrier_arrive(%empty_q, %q_at) {by = warp}"
        rows = self.role_rows
        meet = f"gpu.named_barrier() {{id = {8 + group}, threads = {self.role_threads}}}"
        # the buffer is free: the thread that stored from it has waited
        free = f"gpu.bulk_wait() {{groups = 0, read = true}}\n{meet}" if self.own_out and self.programs else ""
        after = "" if self.own_out else f"gpu.bulk_wait() {{groups = 0, read = true}}\n{meet}\n{release}"
        if not self.programs and not self.own_out:
            after = ""
        return f"""{release if self.own_out else ""}
        %final = tile.map([%base, %blocks]) {{fn = add}}
        %final1 = tile.map([%final, %1]) {{fn = sub}}
        {self.step("%final1", "laste", "phasee", "othere")}
        gpu.mbarrier_wait(%full_v, %laste, %phasee)
        gpu.wgmma_fence()
        {self._multiply_values("%laste", "%pb", "%ob", "oe")}
        %whole = gpu.reduce([%totalb]) {{axes = [1], fn = add, keepdims = true}}
        %ones = tile.broadcast(%one) {{shape = [{rows}, 1]}} : {self.column}
        %inverse = tile.map([%ones, %whole]) {{fn = div}} : {self.column}
        %inverses = tile.broadcast(%inverse) {{shape = [{rows}, {self.depth}]}} : {self.sums}
        {free}
        %of, %dead = gpu.wgmma_wait([%oe, %pb]) {{groups = 0}}
        gpu.mbarrier_arrive(%empty_v, %laste) {{by = warp}}
        %result = tile.map([%of, %inverses]) {{fn = mul}} : {self.sums}
        %narrow = tile.cast(%result) {{dtype = bf16}} : {self.narrow_sums}
        gpu.write(%os, %narrow, [%{group * ROWS}, %0]) {{places = [0, 1], method = matrix}}
        gpu.proxy_fence()
        {meet}
        gpu.tma_store(%out, [%h, %mine, %0], %os, [%{group * ROWS}, %0])
            {{axes = [-1, 0, 1], places = [0, 1], shape = [{rows}, {self.depth}]}}
        gpu.bulk_commit()
        {after}"""

    # All of it

    @property
    def text(self) -> str:
        threads = 128 * self.consumers
        more, less = ({2: (240, 24), 3: (160, 32), 1: (256, 56)}[self.consumers]) if self.registers else (0, 0)
        shared = self.shared()
        if self.apart:
            roles = [role(128 * group, 128, self.consumer(group), more) for group in range(self.consumers)]
        else:
            roles = [role(0, threads, self.consumer(0), more)]
        roles.append(role(threads, 32, self.producer, less))
        body = "\n".join([
            f"%mblocks = tile.size() {{value = (M + {self.rows - 1}) // {self.rows}}}",
            f"%tiles = tile.size() {{value = H * ((M + {self.rows - 1}) // {self.rows})}}",
            f"%allblocks = tile.size() {{value = (N + {self.keys - 1}) // {self.keys}}}",
            "%N = tile.size() {value = N}",
            "%later = tile.size() {value = N - M}",
            *roles,
        ])  # fmt: skip
        programs = self.programs or f"H * ((M + {self.rows - 1}) // {self.rows})"
        launched = f"""%programs = tile.size() {{value = {programs}}}
        gpu.launch([%programs]) {{blocks = [1], threads = {threads + 128}, shared_bytes = {shared.bytes}}}
        body(%p: i64) {{
        {shared.text}
        gpu.barrier()
        {body}
        }}"""
        return written(
            f"%q: tensor<bf16, [H, M, {self.depth}], unit=2>, %k: tensor<bf16, [H, N, {self.depth}], unit=2>, "
            f"%v: tensor<bf16, [H, N, {self.depth}], unit=2>",
            f"[H, M, {self.depth}]",
            launched,
        )

    def program(self, heads: int, queries: int, keys: int) -> HopperProgram:
        """For arrays of such sizes."""

        def make(random: Random) -> list[Any]:
            lengths = (queries, keys, keys)
            return [random.standard_normal((heads, n, self.depth)).astype(ml_dtypes.bfloat16) for n in lengths]

        def compute(operands: list[Array]) -> Array:
            return attention_of(*operands, causal=self.causal).astype(ml_dtypes.bfloat16)

        name = f"softmax: {self}, of {heads}x{queries}x{keys}"
        return HopperProgram(name, self.text, make, returns(compute), relative=2e-2)


def attention_of(q: Array, k: Array, v: Array, *, causal: bool) -> Array:
    """In f32."""
    q, k, v = (x.astype(np.float32) for x in (q, k, v))
    scores: Array = q @ np.transpose(k, (0, 2, 1)) * q.shape[2] ** -0.5
    if causal:
        later = k.shape[1] - q.shape[1]
        scores[:, np.arange(k.shape[1]) > np.arange(q.shape[1])[:, None] + later] = -np.inf
    e: Array = np.exp(scores - scores.max(axis=2, keepdims=True))
    return e / e.sum(axis=2, keepdims=True) @ v


def renamed(text: str, given: dict[str, str], ending: str) -> str:
    """The names that `text` defines are others: those `given`, or with an ending."""
    defined = {name for line in re.findall(r"^\s*(%[\w%, ]+) =", text, re.M) for name in re.findall(r"%(\w+)", line)}
    return re.sub(r"%(\w+)", lambda m: "%" + (given.get(m[1], m[1] + ending) if m[1] in defined else m[1]), text)


def written(parameters: str, result: str, launched: str) -> str:
    """A function that returns %out, with the numbers that its text names."""
    numbers = sorted({int(number) for number in re.findall(r"%(\d+)\b", launched)})
    lines = [f"%out = tile.empty() {{shape = {result}, dtype = bf16}}"]
    lines += [f"%{number} = tile.constant() {{value = {number}, dtype = i64}}" for number in numbers]
    lines.append("%no = tile.constant() {value = false, dtype = bool}")
    body = "\n".join([*lines, launched, "tile.return([%out])"])
    found, depth = [f"func @f({parameters}) {{"], 1
    for line in body.splitlines():
        line = line.strip()
        if line:
            closes = len(line) - len(line.lstrip("}"))
            found.append("  " * (depth - closes) + line)
            depth += line.count("{") - line.count("}")
    return "\n".join([*found, "}", ""])
