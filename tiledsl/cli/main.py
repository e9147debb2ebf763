"""The command `tiledsl`: compile kernels and read what becomes of them, look for races, run their GPU code
in the emulator, run passes on IR text.

tiledsl new row_norm
tiledsl compile examples/gemm.py:gemm --spec "f32[M,K]" --spec "f32[K,N]" --emit tile
tiledsl compile examples/gemm.py:gemm --spec "f16[512,512]" --spec "f16[512,512]" --arch sm_90 --emit cuda
tiledsl emulate examples/gemm.py:gemm --spec "bf16[128,256]" --spec "bf16[256,128]" --seeds 5
tiledsl audit examples/gemm.py:gemm --spec "f16[4096,4096]" --spec "f16[4096,4096]"
tiledsl audit models.py --spec "attention:f16[32,4096,128]"
tiledsl check examples/softmax.py:softmax --spec "f32[30,100]"
tiledsl check model.onnx --size batch=2
tiledsl verify examples/gemm.py:gemm --spec "f32[M,K]" --spec "f32[K,N]"
tiledsl bench models.py:encoder --spec "f32[B,128,384]" --batch 1 8 --against eager compile
tiledsl profile model.onnx --size batch=8
tiledsl tune examples/gemm.py:gemm --spec "f32[512,512]" --spec "f32[512,512]" --seconds 30
tiledsl db show tuned
tiledsl opt gemm.tir -p "place-levels,infer-tiling"
tiledsl run model.onnx --input x.npy
tiledsl explain model.onnx --html
tiledsl doctor
tiledsl completion bash
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Sequence

from tiledsl import __version__
from tiledsl.cli.commands.audit import add_audit_command
from tiledsl.cli.commands.bench import add_bench_command
from tiledsl.cli.commands.check import add_check_command
from tiledsl.cli.commands.compile import add_compile_command
from tiledsl.cli.commands.completion import add_completion_command
from tiledsl.cli.commands.database import add_database_command
from tiledsl.cli.commands.doctor import add_doctor_command
from tiledsl.cli.commands.emulate import add_emulate_command
from tiledsl.cli.commands.new import add_new_command
from tiledsl.cli.commands.onnx_files import add_explain_command, add_run_command
from tiledsl.cli.commands.opt import add_opt_command
from tiledsl.cli.commands.profile import add_profile_command
from tiledsl.cli.commands.tune import add_tune_command
from tiledsl.cli.commands.verify import add_verify_command
from tiledsl.cli.overview import overview
from tiledsl.cli.parser import WRONG_LINES, described, empty_parser, parse
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import TileError, excerpt


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and gives its exit code: 0, 1 for a TileError (printed), 2 for a command line that is wrong.
    Without a command, prints what there is."""
    words = sys.argv[1:] if argv is None else argv
    parser = make_parser()
    if not words:
        print(overview(described(parser)))
        return 0
    try:
        options = parse(parser, words)
        return options.run(options)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except TileError as error:
        print(_of_command_line(error), file=sys.stderr)
        return 2 if error.code in WRONG_LINES else 1


def _of_command_line(error: TileError) -> str:
    """The text of an error, without the place where it only says that this program was started."""
    text = str(error).lstrip("\n")
    if error.location is None or error.location != caller_location():
        return text
    first, *lines = text.removeprefix(f"{error.location}: ").splitlines()
    return "\n".join([first, *lines[len(excerpt(error.location)) :]])


def make_parser() -> ArgumentParser:
    """The whole command line."""
    parser = empty_parser("tiledsl", "A tile compiler in Python.")
    parser.add_argument("--version", action="version", version=f"tiledsl {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    add_new_command(commands)
    add_compile_command(commands)
    add_check_command(commands)
    add_verify_command(commands)
    add_emulate_command(commands)
    add_audit_command(commands)
    add_bench_command(commands)
    add_profile_command(commands)
    add_run_command(commands)
    add_explain_command(commands)
    add_opt_command(commands)
    add_tune_command(commands)
    add_database_command(commands)
    add_doctor_command(commands)
    add_completion_command(commands, parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
