"""`tiledsl opt`: passes on IR text.

tiledsl opt gemm.tir -p "place-levels,infer-tiling{arch=avx2}"
tiledsl opt - -p canonicalise --dump < gemm.tir
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tiledsl.ir.core import Module
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.text.printer import print_module
from tiledsl.ir.verifier import Form, verify
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.pipeline_text import parse_pipeline
from tiledsl.passes.registry import PASSES
from tiledsl.support.errors import fail


def add_opt_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:  # pyright: ignore[reportPrivateUsage]  # argparse has no public name for it
    parser = commands.add_parser("opt", help="run passes on IR text", epilog="passes: " + ", ".join(PASSES))
    parser.add_argument("file", metavar="FILE.tir", help="a module as text; - for standard input")
    parser.add_argument(
        "-p", "--passes", default="", metavar="PIPELINE",
        help="passes in order, with options: canonicalise,infer-tiling{arch=cpu}; none only checks the text",
    )  # fmt: skip
    parser.add_argument("--dump", action="store_true", help="print the module after every pass, not only at the end")
    parser.add_argument("--locations", action="store_true", help="print the source location of every op")
    parser.add_argument("--remarks", action="store_true", help="print what the passes have to say, to standard error")
    parser.add_argument(
        "--verify-form", choices=[form.value for form in Form], metavar="FORM",
        help="check that the result is in this form: " + ", ".join(form.value for form in Form),
    )  # fmt: skip
    parser.set_defaults(run=_opt)


def _opt(options: argparse.Namespace) -> int:
    file: str = options.file
    text = sys.stdin.read() if file == "-" else read_text(file)
    module = parse_module(text, "<stdin>" if file == "-" else file)

    def dump(name: str, module: Module) -> None:
        print(f"# {'input' if name == 'input' else f'after {name}'}\n{show(module)}")

    def show(module: Module) -> str:
        return print_module(module, locations=options.locations)

    context = PassContext()
    result = PassManager(parse_pipeline(options.passes), dump=dump if options.dump else None).run(module, context)
    for line in context.printed:
        print(f"# {line}")
    if not options.dump:
        print(show(result), end="")
    if options.remarks:
        for remark in context.remarks:
            print(f"# {remark}", file=sys.stderr)
    if options.verify_form is not None:
        verify(result, Form(options.verify_form))
    return 0


def read_text(file: str) -> str:
    """What a file says. Raises TileSyntaxError if it cannot be read."""
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    fail("opt-file", None, file=file, reason=reason)
