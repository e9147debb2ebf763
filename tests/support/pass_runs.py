"""Running pipelines, given as text, on modules given as text."""

from __future__ import annotations

from tiledsl.ir.core import Module
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.text.printer import print_module
from tiledsl.passes.machine import MACHINES
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.pipeline_text import parse_pipeline


def run_passes(pipeline: str, text: str) -> Module:
    """The module of `text` after the passes of `pipeline`, for a machine that is always the same."""
    return PassManager(parse_pipeline(pipeline)).run(parse_module(text), new_context())


def remarks_of(pipeline: str, text: str) -> list[str]:
    """What the passes have to say, without places."""
    context = new_context()
    PassManager(parse_pipeline(pipeline)).run(parse_module(text), context)
    return [f"{remark.pass_name}: {remark.text}" for remark in context.remarks]


def new_context() -> PassContext:
    return PassContext(MACHINES["avx2"])


def scalar_program(parameters: str, body: str, result: str) -> str:
    """A function that prints `%result`, after `body`, so that it is needed."""
    return f"func @f({parameters}) {{\n{body}\n  tile.print([%{result}])\n  tile.return([])\n}}\n"


def ops_after(pipeline: str, text: str) -> list[str]:
    """The lines of the function's body after the passes, without its print and its return."""
    lines = print_module(run_passes(pipeline, text)).splitlines()[1:-1]
    return [line.strip() for line in lines if "tile.print" not in line and "tile.return" not in line]
