"""`torch.export` of a model, with what it cannot do said as errors of this package, at the user's lines.

if x.sum() > 0:             =>      model.py:5: `Model` asks for the value of a tensor while it is traced ...
"""

from __future__ import annotations

import logging
import re
import sys
import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from typing import Any, NoReturn

import torch
from torch import export

from tiledsl.frontend.trace.trace_places import source_text
from tiledsl.importers.torch.refusals import way_round
from tiledsl.importers.torch.rewritten import Rewriting
from tiledsl.importers.torch.user_lines import lines_kept, raised_at
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import make_error

_CHATTY = ("torch._subclasses.fake_tensor", "torch.fx.experimental.symbolic_shapes", "torch.export._trace")
"""Loggers of PyTorch that print stacks before what the error says better is raised."""
_NUMBER = re.compile(r"(?:math\.|int\(|float\(|range\()")
"""What makes a number of a tensor, rather than a decision."""


def exported(model: str, module: Any, example: Sequence[Any], named: Mapping[str, Any], dynamic_shapes: Any) -> Any:
    """The program of a module that is called so. Raises TileErrors for what `torch.export` cannot write down."""
    with torch.no_grad(), warnings.catch_warnings(), lines_kept(exported.__code__), _without() as graphs, Rewriting():
        warnings.simplefilter("ignore", FutureWarning)  # PyTorch's, of itself
        try:
            return export.export(module, tuple(example), dict(named), dynamic_shapes=dynamic_shapes, strict=False)
        except Exception as error:
            reason = error
            graphs.append(str(getattr(error, "partial_fx_graph", "")))
    _refuse(model, example, reason)


def taken_apart(model: str, program: Any, table: Any) -> Any:
    """A program with the operators of a table written as others. Raises TileRuntimeError where that fails."""
    with torch.no_grad(), warnings.catch_warnings(), lines_kept(taken_apart.__code__):
        warnings.simplefilter("ignore", FutureWarning)
        try:
            return program.run_decompositions(table)
        except Exception as error:
            reason = error
    _refuse(model, (), reason)


@contextmanager
def _without() -> Generator[list[str]]:
    """Within, an export that fails does not print the graphs that are in the list; all else is printed."""
    loggers = [logging.getLogger(name) for name in _CHATTY]
    disabled = [logger.disabled for logger in loggers]
    printed, graphs = StringIO(), list[str]()
    for logger in loggers:
        logger.disabled = True
    try:
        with redirect_stderr(printed):
            yield graphs
    finally:
        for logger, before in zip(loggers, disabled):
            logger.disabled = before
        text = printed.getvalue()
        for graph in graphs:
            text = text.replace(f"{graph}\n", "") if graph else text
        sys.stderr.write(text)


def _refuse(model: str, example: Sequence[Any], error: Exception) -> NoReturn:
    """Raises what an error of `torch.export` comes to."""
    text, kind = str(error), type(error).__name__
    place = raised_at(error.__traceback__)
    here = place or caller_location()
    asked = source_text(place) if place else ""
    reason = next((line.strip() for line in text.splitlines() if line.strip()), kind)
    names: dict[str, Any] = {"model": model, "text": asked, "reason": reason, "kind": kind}
    if kind == "GuardOnDataDependentSymNode" and (text.startswith("Could not extract") or _NUMBER.match(asked)):
        code = "torch-number"
    elif kind in ("GuardOnDataDependentSymNode", "DataDependentOutputException"):
        code = "torch-branch"
    elif kind == "DynamicOutputShapeException":
        code, names["operator"], names["fix"] = "torch-data-sizes", reason, way_round(reason)
    elif kind == "UserError":
        code, here = _dynamic_shapes(text, names), caller_location()
    elif text.startswith("Unsupported input type"):
        code, names["kind"] = "torch-argument", _class_named(reason)
    elif text.startswith("Found <class"):
        code, names["kind"] = "torch-result", _class_named(reason)
    elif _is_one_tuple(example) and (place is None or isinstance(error, TypeError)):
        code, here = "torch-example", caller_location()
        names |= {"kind": type(example[0]).__name__, "count": len(example[0])}
    else:
        code = "torch-raises"
    raise make_error(code, here, **names) from error


def _dynamic_shapes(text: str, names: dict[str, Any]) -> str:
    """The code for what `dynamic_shapes` says and a model does not hold; adds reason and fix to `names`."""
    if not text.startswith("Constraints violated"):
        names["reason"] = re.split(r"\. (?:Alternatively|For more)", str(names["reason"]))[0]
        return "torch-dynamic-form"
    reasons, _, fixes = text.partition("Suggested fixes:")
    first = next((line for line in reasons.splitlines()[1:] if line.strip()), reasons)
    said = [line.strip() for line in fixes.partition("\n\n")[0].splitlines() if line.strip()]
    names["reason"] = re.sub(r"L\['(\w+)'\]", r"\1", first.strip(" -")).partition(". If you're using")[0]
    names["fixes"] = ", ".join(f"`{line}`" for line in said) or "leave that size out"
    return "torch-dynamic"


def _class_named(text: str) -> str:
    """The name of the class in `<class 'a.B'>`."""
    found = re.search(r"<class '(?:.*\.)?(\w+)'>", text)
    return found.group(1) if found else "value of another kind"


def _is_one_tuple(example: Sequence[Any]) -> bool:
    """Whether a model was given one tuple or list, as `torch.export.export` has all arguments."""
    return len(example) == 1 and isinstance(example[0], (tuple, list))
