"""What a grid gets by TMA where warps are specialised, and why others are declined."""

from __future__ import annotations

import pytest

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Module
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.types import BlockSize
from tiledsl.passes.gpu.products.row_starts import row_start
from tiledsl.passes.gpu.products.streamed_loads import DeclinedError, Feed, feeds_of
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.pipelines import gpu_front_pipeline

A, B = "%at = tile.load(%a, [%m, %k])", "%bt = tile.load(%b, [%k, %n])"
DOT = "%next = tile.dot(%at, %bt, %partial) {dtype = f32}"

B_WIDE = """%braw = tile.load(%b, [%k, %n])
%bwide = tile.cast(%braw) {dtype = f32}
%btwice = tile.map([%bwide, %bwide]) {fn = add}
%bt = tile.cast(%btwice) {dtype = bf16}"""
ONE = "%one = tile.constant() {value = 1.0, dtype = bf16}"
HALF = "%two = tile.constant() {value = 2, dtype = i64}\n%end = tile.map([%K, %two]) {fn = floordiv}"


def program(
    inside: str = f"{A}\n{B}\n{DOT}",
    before: str = "",
    after: str = "",
    start: str = "%none",
    stop: str = "%K",
    a: str = "bf16, [M, K], unit=1",
    b: str = "bf16",
) -> Module:
    """A product of which the loop does what `inside` says."""
    module = parse_module(f"""
func @f(%a: tensor<{a}>, %b: tensor<{b}, [K, N], unit=1>, %g: tensor<f32, [K], unit=0>, %i: tensor<i64, [K], unit=0>,
        %c: tensor<f32, [M, N], unit=1>) {{
  %M = tile.size() {{value = M}}
  %N = tile.size() {{value = N}}
  tile.grid([%M, %N]) {{blocks = [auto, auto]}} body(%m: axis<m>, %n: axis<n>) {{
    %zero = tile.constant() {{value = 0.0, dtype = f32}}
    %none = tile.constant() {{value = 0, dtype = i64}}
    %acc = tile.broadcast(%zero) {{shape = [m, n]}}
    %K = tile.size() {{value = K}}
    {before}
    %total = tile.range({start}, {stop}, [%acc]) {{blocks = [auto]}} body(%k: axis<k>, %partial: tile<f32, [m, n]>) {{
      {inside}
      tile.yield([%next])
    }}
    {after}
    tile.store(%c, [%m, %n], %total)
  }}
  tile.return([])
}}
""")
    return PassManager(gpu_front_pipeline()).run(module, PassContext())


def feeds(module: Module, alignment: int = 16, capability: int = 90) -> tuple[Feed, ...]:
    (grid,) = [op for op in module.walk() if isinstance(op, ops.Grid)]
    return feeds_of(grid, capability, lambda tensor: alignment, (4, 8))


def names(feed: Feed) -> list[str]:
    return [load.tensor.name for load in feed.loads]


SCALED = """%xt = tile.load(%a, [%m, %k])
%wide = tile.cast(%xt) {dtype = f32}
%gt = tile.load(%g, [%k])
%gains = tile.broadcast(%gt) {shape = [m, k]}
%scaled = tile.map([%wide, %gains]) {fn = mul}
%at = tile.cast(%scaled) {dtype = bf16}"""


def test_what_a_left_operand_is_computed_of_comes_with_the_right_one() -> None:
    (feed,) = feeds(program(f"{SCALED}\n{B}\n{DOT}"))
    assert sorted(names(feed)) == ["a", "b", "g"]
    axes = {load.tensor.name: (use.is_left, use.computed, use.axes) for load, use in zip(feed.loads, feed.uses)}
    assert axes == {"a": (True, True, (0, 1)), "g": (True, True, (-1, 0)), "b": (False, False, (0, 1))}


def test_what_tma_cannot_bring_of_it_is_left_to_others() -> None:
    (feed,) = feeds(program(f"{SCALED}\n{B}\n{DOT}", a="bf16, [M, K]"))
    assert sorted(names(feed)) == ["b", "g"]
    assert [(load.tensor.name, why) for load, why in feed.left_out] == [
        ("a", "no row of `a` is known to lie in one piece")
    ]


def test_a_tile_that_something_else_reads_comes_all_the_same() -> None:
    more = (
        "%wide = tile.cast(%at) {dtype = f32}\n%most = tile.reduce([%wide]) {axes = [0, 1], fn = max, keepdims = false}"
    )
    assert_ = '%fine = tile.map([%most, %zero]) {fn = ge}\ntile.assert(%fine) {text = "negative"}'
    (feed,) = feeds(program(f"{A}\n{B}\n{DOT}\n{more}\n{assert_}"))
    assert names(feed) == ["a", "b"]


def test_products_that_do_not_feed_on_each_other_have_one_feed() -> None:
    second = f"{SCALED}\n{B}\n%first = tile.dot(%at, %bt, %partial) {{dtype = f32}}"
    third = "%wt = tile.load(%b, [%k, %n])\n%none_yet = tile.broadcast(%zero) {shape = [m, n]}"
    last = "%other = tile.dot(%at, %wt, %none_yet) {dtype = f32}\n%next = tile.map([%first, %other]) {fn = add}"
    (feed,) = feeds(program(f"{second}\n{third}\n{last}"))
    assert set(names(feed)) == {"a", "b", "g"}
    assert {use.dot for use in feed.uses} <= {op for op in feed.block.ops if isinstance(op, ops.Dot)}


DECLINED: list[tuple[dict[str, str], dict[str, int], str]] = [
    ({"inside": "%next = tile.map([%partial, %partial]) {fn = add}"}, {}, "it multiplies no matrices"),
    ({}, {"capability": 80}, "sm_80 has no `wgmma`"),
    ({"a": "f32, [M, K], unit=1", "b": "f32"}, {}, '`wgmma` multiplies f32 only with precision="tf32"'),
    ({}, {"alignment": 2}, "rows of `a` do not start at multiples of 4 bytes"),
    ({"a": "bf16, [M, K]"}, {}, "no row of `a` is known to lie in one piece"),
    (
        {"inside": f"%at = tile.load(%a, [%m, %k], %one)\n{B}\n{DOT}", "before": ONE},
        {},
        "what lies outside of `a` is not to be 0",
    ),
    (
        {"inside": f"{A}\n%it = tile.load(%i, [%k])\n%bt = tile.load(%b, [%it, %n])\n{DOT}"},
        {},
        "an operand is gathered, or a part of a row",
    ),
    (
        {"before": HALF, "stop": "%end"},
        {},
        "the loop does not end where `a` does",
    ),
    (
        {"inside": f"{SCALED}\n{B_WIDE}\n{DOT}"},
        {"alignment": 8},
        "rows of `a` do not start at multiples of 16 bytes",
    ),
    (
        {"after": "tile.print([%zero]) {text = \"x\"}"},
        {},
        "`tile.print` wants all threads of a block",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("parts", "asked", "reason"), DECLINED, ids=[reason for _, _, reason in DECLINED])
def test_declines(parts: dict[str, str], asked: dict[str, int], reason: str) -> None:
    with pytest.raises(DeclinedError) as caught:
        feeds(program(**parts), **asked)
    assert str(caught.value) == reason


SHIFTED = """%by = tile.constant() {value = BY, dtype = i64}
%later = tile.shift(%n, %by)"""
BEHIND = f"{A}\n{B}\n{DOT}".replace("%n]", "%later]")


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({}, (16, 16)),
        ({"before": "%from = tile.constant() {value = 8, dtype = i64}", "start": "%from"}, (16, 16)),
        ({"before": "%from = tile.constant() {value = 4, dtype = i64}", "start": "%from"}, (8, 16)),
        ({"before": "%from = tile.constant() {value = 3, dtype = i64}", "start": "%from"}, (2, 16)),
        ({"before": "%from = tile.size() {value = M}", "start": "%from"}, (4, 16)),
        ({"before": "%from = tile.start(%m)", "start": "%from"}, (16, 16)),
        ({"before": SHIFTED.replace("BY", "6"), "inside": BEHIND}, (16, 4)),
        ({"before": SHIFTED.replace("BY", "24"), "inside": BEHIND}, (16, 16)),
    ],
)
def test_where_what_is_read_of_rows_begins(parts: dict[str, str], expected: tuple[int, int]) -> None:
    """Sizes are known to be even."""
    loads = [op for op in program(**parts).walk() if isinstance(op, ops.Load)]
    assert tuple(row_start(load, 16, lambda size: 2) for load in loads) == expected


def test_rows_that_are_read_from_within_16_bytes() -> None:
    parts = {"before": SHIFTED.replace("BY", "3"), "inside": BEHIND}
    (grid,) = [op for op in program(**parts).walk() if isinstance(op, ops.Grid)]
    with pytest.raises(DeclinedError) as caught:
        feeds_of(grid, 90, lambda load: row_start(load, 16, lambda size: 1), (4, 8))
    assert str(caught.value) == "rows of `b` are read from elements on that are no multiples of 4 bytes"


WHOLE_TURNS = """%length = tile.constant() {value = LENGTH, dtype = i64}
%from = tile.start(%m)
%more = tile.map([%from, %length]) {fn = add}
%end = tile.map([%more, %K]) {fn = minimum}"""


def test_a_loop_of_whole_turns_may_end_within_the_tensor() -> None:
    """What its last turn reads is its own, or lies beyond the tensor."""
    (feed,) = feeds(program(before=WHOLE_TURNS.replace("LENGTH", "512"), start="%from", stop="%end"))
    assert [load.tensor.name for load in feed.loads] == ["a", "b"]
    (feed,) = feeds(program(before=WHOLE_TURNS.replace("LENGTH", "512"), start="%from", stop="%more"))
    assert len(feed.loads) == 2
    for length, stop in (("320", "%end"), ("320", "%more")):
        with pytest.raises(DeclinedError, match="the loop does not end where `a` does"):
            feeds(program(before=WHOLE_TURNS.replace("LENGTH", length), start="%from", stop=stop))


def test_turns_are_as_long_as_the_program_says() -> None:
    module = program(before=WHOLE_TURNS.replace("LENGTH", "320"), start="%from", stop="%end")
    for block, fits in ((64, True), (128, False)):
        for op in module.walk():
            if isinstance(op, ops.Range):
                op.attributes["blocks"] = (BlockSize.fixed(block),)
        if fits:
            assert len(feeds(module)) == 1
        else:
            with pytest.raises(DeclinedError):
                feeds(module)


def latent(stop: int, whole: str = "%c, [%j, :]", part: str = "%c, [%j, 0:{stop}]") -> Module:
    """Scores of whole rows, and sums of their first columns."""
    module = parse_module(f"""
func @f(%q: tensor<bf16, [M, 576], unit=1>, %c: tensor<bf16, [N, 576], unit=1>, %o: tensor<f32, [M, {stop}], unit=1>) {{
  %M = tile.size() {{value = M}}
  tile.grid([%M]) {{blocks = [auto]}} body(%m: axis<m>) {{
    %zero = tile.constant() {{value = 0.0, dtype = f32}}
    %none = tile.constant() {{value = 0, dtype = i64}}
    %acc = tile.broadcast(%zero) {{shape = [m, {stop}]}}
    %N = tile.size() {{value = N}}
    %total = tile.range(%none, %N, [%acc]) {{blocks = [auto]}} body(%j: axis<j>, %sums: tile<f32, [m, {stop}]>) {{
      %queries = tile.load(%q, [%m, :])
      %keys = tile.load({whole})
      %turned = tile.transpose(%keys) {{permutation = [1, 0]}}
      %scores = tile.dot(%queries, %turned) {{dtype = f32}}
      %p = tile.cast(%scores) {{dtype = bf16}}
      %values = tile.load({part.format(stop=stop)})
      %next = tile.dot(%p, %values, %sums) {{dtype = f32}}
      tile.yield([%next])
    }}
    tile.store(%o, [%m, :], %total)
  }}
  tile.return([])
}}
""")
    return PassManager(gpu_front_pipeline()).run(module, PassContext())


def loads_in_loop(module: Module) -> list[str]:
    found = [load for feed in feeds(module) for load in feed.loads if isinstance(feed.block.parent, ops.Range)]
    return [", ".join(map(str, load.indices[1:])) for load in found]


def test_a_part_comes_with_the_whole() -> None:
    assert loads_in_loop(latent(512)) == [":"]


@pytest.mark.parametrize("part", ["%c, [%j, 64:576]", "%q, [%j, 0:512]"])
def test_parts_that_begin_elsewhere_or_are_of_others_come_by_themselves(part: str) -> None:
    assert len(loads_in_loop(latent(512, part=part))) == 2


def test_parts_end_with_a_step_of_an_instruction() -> None:
    with pytest.raises(DeclinedError, match="an operand is gathered, or a part of a row"):
        feeds(latent(500))
