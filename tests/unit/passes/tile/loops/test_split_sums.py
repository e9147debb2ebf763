"""Which sums are split among programs, and why others are not."""

from __future__ import annotations

import pytest

from tiledsl.ir.text.parser import parse_module
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.tile.loops.split_sums import SplitSums

GRID = """
func @f(%x: tensor<{dtype}, [M, K]>, %y: tensor<{dtype}, [M, K]>, %stop: i64) {{
  %M = tile.size() {{value = M}}
  %K = tile.size() {{value = K}}
  %zero = tile.constant() {{value = 0, dtype = i64}}
  %rows = tile.map([%M, {more}]) {{fn = add}}
  tile.grid([{rows}]) {{blocks = [auto]}} body(%m: axis<m>) {{
    %none = tile.constant() {{value = 0, dtype = {dtype}}}
    %zeros = tile.broadcast(%none) {{shape = [m]}}
    {before}
    %sum = tile.range(%zero, %K, [{initial}]) {{blocks = [auto]}} body(%k: axis<k>, %acc: tile<{dtype}, [m]>) {{
      %at = tile.load(%x, [%m, %k])
      %part = tile.reduce([%at]) {{axes = [1], fn = {fold}}}
      {turn}
    }}
    %whole = tile.reshape(%sum) {{shape = [m, 1]}}
    %wide = tile.broadcast(%whole) {{shape = [m, K]}}
    tile.store(%y, [%m, :], %wide)
  }}
  tile.return([])
}}
"""
USUAL = {
    "dtype": "f32", "more": "%zero", "rows": "%M", "before": "", "initial": "%zeros",
    "fold": "add", "turn": "%next = tile.map([%part, %acc]) {fn = add}\n      tile.yield([%next])",
}  # fmt: skip


def turn(mapped: str) -> str:
    """The end of a turn: what is yielded."""
    return f"%next = tile.map([{mapped}\n      tile.yield([%next])"


def remarks(changed: dict[str, str], parts: int = 2) -> list[str]:
    context = PassContext()
    PassManager([SplitSums((parts,))]).run(parse_module(GRID.format(**{**USUAL, **changed})), context)
    return [remark.text for remark in context.remarks if remark.pass_name == "split-sums"]


def test_a_plain_sum_is_split() -> None:
    for added in ("%part, %acc]) {fn = add}", "%acc, %part]) {fn = sub}", "%part, %part, %acc]) {fn = fma}"):
        assert remarks({"turn": turn(added)}) == ["split into 2 parts, which another grid merges"]


def test_other_folds_are_split() -> None:
    for fold, merged in (("max", "maximum"), ("min", "minimum"), ("mul", "mul")):
        changed = {"fold": fold, "turn": turn(f"%part, %acc]) {{fn = {merged}}}")}
        assert remarks(changed) == ["split into 2 parts, which another grid merges"]


def test_one_part_is_the_whole() -> None:
    assert remarks({}, 1) == []


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"turn": turn("%part, %acc]) {fn = sub}")}, "`acc` is no fold"),
        ({"turn": turn("%part, %acc]) {fn = pow}")}, "`acc` is no fold"),
        (
            {"turn": turn("%acc, %acc]) {fn = add}")},
            "the loop does more with `acc` than to add to it",
        ),
        (
            {"turn": 'tile.print([%part]) {text = "x"}\n      tile.yield([%acc])'},
            "the loop writes, prints or checks",
        ),
        (
            {
                "turn": "%old = tile.load(%y, [%m, %k])\n      tile.yield([%acc])",
            },
            "`y` is read and written by the same grid",
        ),
        (
            {
                "before": "%old = tile.load(%y, [%m, 0:1])\n    %first = tile.reduce([%old]) {axes = [1], fn = add}",
                "turn": "%n1 = tile.map([%part, %first]) {fn = add}\n      %n2 = tile.map([%n1, %acc]) {fn = add}\n"
                "      tile.yield([%n2])",
            },
            "`y` is read and written by the same grid",
        ),
        (
            {
                "before": "%old = tile.atomic(%y, [%m, %zero], %zeros) {fn = add}",
                "turn": "%n1 = tile.map([%part, %old]) {fn = add}\n      %n2 = tile.map([%n1, %acc]) {fn = add}\n"
                "      tile.yield([%n2])",
            },
            "the loop needs what `tile.atomic` gives",
        ),
        ({"rows": "%rows", "more": "%stop"}, "how far the grid goes is computed"),
    ],
)  # fmt: skip
def test_what_is_no_plain_sum_stays(changed: dict[str, str], reason: str) -> None:
    assert remarks(changed) == [f"sums are not split into 2 parts, because {reason}"]


def test_a_loop_that_carries_nothing_stays() -> None:
    text = GRID.format(**USUAL).replace("%sum = tile.range(%zero, %K, [%zeros])", "tile.range(%zero, %K, [])")
    text = text.replace(", %acc: tile<f32, [m]>", "").replace("[%part, %acc]", "[%part, %part]")
    text = text.replace("tile.yield([%next])", "tile.yield([])").replace("tile.reshape(%sum)", "tile.reshape(%zeros)")
    context = PassContext()
    PassManager([SplitSums((2,))]).run(parse_module(text), context)
    assert [remark.text for remark in context.remarks] == [
        "sums are not split into 2 parts, because the loop carries nothing"
    ]


def test_sums_of_two_loops_are_split_unless_one_needs_the_other() -> None:
    second = (
        "%more = tile.range(%zero, %K, [%zeros]) {blocks = [auto]} body(%j: axis<j>, %a: tile<f32, [m]>) {\n"
        "      %b = tile.load(%x, [%m, %j])\n      %c = tile.reduce([%b]) {axes = [1], fn = add}\n"
        "      %d = tile.map([%a, OTHER]) {fn = add}\n      tile.yield([%d])\n    }\n    %whole = tile.reshape"
    )
    for other, split in (("%c", 2), ("%sum", 1)):
        text = GRID.format(**USUAL).replace("%whole = tile.reshape", second.replace("OTHER", other))
        context = PassContext()
        PassManager([SplitSums((2,))]).run(parse_module(text), context)
        assert sum(remark.text.startswith("split into 2 parts") for remark in context.remarks) == split
