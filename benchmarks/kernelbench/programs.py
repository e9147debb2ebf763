"""The programs' files: which there are, and the model, arguments and result of one, as it is or with smaller sizes."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

MOST = 2**22
"""Elements of an argument on a CPU, at most: larger ones are for devices."""


def programs(folder: Path, levels: Sequence[int], only: str) -> Iterator[tuple[int, Path]]:
    """Levels and files, in the order of their numbers, of those in whose names that regular expression is found."""
    for level in levels:
        files = [path for path in (folder / f"level{level}").glob("*.py") if re.search(only, path.stem)]
        for path in sorted(files, key=lambda path: int(path.stem.partition("_")[0])):
            yield level, path


Shrink = Callable[[int], int]


def at_most(largest: int) -> Shrink:
    """Halves numbers until they are at most `largest`."""

    def shrink(number: int) -> int:
        while number > largest:
            number = (number + 1) // 2
        return number

    return shrink


def divided(by: int) -> Shrink:
    """Divides numbers that are much larger than that, so that those which belong together still do."""
    return lambda number: number // by if number >= 4 * by else number


def smaller(source: str, shrink: Shrink, inputs: bool = False) -> str:
    """A program with smaller numbers where it assigns them to names.

    `inputs`: and where it makes its arguments.
    """
    tree = ast.parse(source)

    class Shrunk(ast.NodeTransformer):
        def visit_Constant(self, node: ast.Constant) -> ast.Constant:
            value = node.value
            if not isinstance(value, int) or isinstance(value, bool):
                return node
            return ast.copy_location(ast.Constant(shrink(value)), node)

    for i, statement in enumerate(tree.body):
        makes = inputs and isinstance(statement, ast.FunctionDef) and statement.name == "get_inputs"
        if isinstance(statement, ast.Assign) or makes:
            tree.body[i] = Shrunk().visit(statement)
    return ast.unparse(ast.fix_missing_locations(tree))


def loaded(source: str, path: Path) -> tuple[Any, list[Any]]:
    """The model of a program, and the arguments of a call. Raises whatever the program does."""
    names: dict[str, Any] = {"__name__": "kernelbench"}
    exec(compile(source, str(path), "exec"), names)
    torch.manual_seed(0)
    model = names["Model"](*names["get_init_inputs"]()).eval()
    return model, list(names["get_inputs"]())


def smallest(path: Path, largest: int) -> tuple[Any, list[Any], Any] | None:
    """The model with the smallest sizes with which it runs on a CPU, its arguments and result; None if with none."""
    source = path.read_text(encoding="utf-8")
    limits = [at_most(limit) for limit in (largest, 2 * largest, 4 * largest, 16 * largest, 2**31)]
    ways = [(shrink, inputs) for inputs in (False, True) for shrink in limits]
    ways += [(divided(by), False) for by in (16, 8, 4, 2)]
    return next((made for way in ways if (made := _run(smaller(source, *way), path)) is not None), None)


def _run(source: str, path: Path) -> tuple[Any, list[Any], Any] | None:
    try:
        model, arguments = loaded(source, path)
        if any(isinstance(one, torch.Tensor) and one.numel() > MOST for one in arguments):
            return None
        torch.manual_seed(0)  # some programs draw their initial state
        with torch.no_grad():
            return model, arguments, model(*arguments)
    except TimeoutExpiredError:
        raise
    except Exception:
        return None


class TimeoutExpiredError(Exception):
    """A program took too long."""
