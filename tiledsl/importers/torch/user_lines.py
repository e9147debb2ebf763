"""The user's lines in what PyTorch exports: by itself it keeps those of `forward` methods alone, and no columns.

Within `lines_kept`, each node tells all lines between the function that exports and PyTorch:

    File "model.py", line 7, in rotated, columns 12-27
"""

from __future__ import annotations

import inspect
import linecache
import sysconfig
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any

import torch

from tiledsl.frontend.trace.trace_places import is_internal, span
from tiledsl.support.location import Location

_OTHERS = (str(Path(torch.__file__).parent), "torch/", "<string>", "<frozen ", "<eval_with_key>")
_STANDARD = sysconfig.get_path("stdlib")
_FILTER = "_filter_traceback_frames"
"""The method of PyTorch's tracers that says which lines a node keeps."""


def is_users(file: str) -> bool:
    """Whether a file is neither PyTorch's nor Python's own, nor made up."""
    if file.startswith(_OTHERS):
        return False
    return not file.startswith(_STANDARD) or "site-packages" in file


class _Lines(list[FrameType]):
    """Frames, the outermost first, in place of the list that PyTorch would format."""

    def format(self) -> list[str]:
        made: list[str] = []
        for frame in self:
            place, name = span(frame), frame.f_code.co_name
            last = place.end_column if place.end_line == place.line else len(linecache.getline(place.file, place.line))
            text = linecache.getline(place.file, place.line).strip()
            columns = f", columns {place.column}-{last}"
            made.append(f'  File "{place.file}", line {place.line}, in {name}{columns}\n    {text}\n')
        return made


def _users_frames(root: CodeType) -> _Lines:
    """The user's frames that a function of this package called."""
    frames = _Lines()
    frame = inspect.currentframe()
    while frame is not None and frame.f_code is not root:
        if is_users(frame.f_code.co_filename) and not is_internal(frame):
            frames.append(frame)
        frame = frame.f_back
    frames.reverse()
    return frames


@contextmanager
def lines_kept(root: CodeType) -> Generator[None]:
    """Within, what PyTorch writes down keeps the user's lines that `root` called, with their columns."""
    tracer: Any = torch.fx.proxy.TracerBase
    before = getattr(tracer, _FILTER, None)
    if before is None:  # a PyTorch that does it in another way: lines of `forward` methods are told, without columns
        yield
        return

    def kept(*_: Any) -> _Lines:
        return _users_frames(root)

    setattr(tracer, _FILTER, kept)
    try:
        yield
    finally:
        setattr(tracer, _FILTER, before)


def raised_at(trace: TracebackType | None) -> Location | None:
    """The user's innermost line of an error that came out of an export, with the calls that led to it."""
    found: Location | None = None
    while trace is not None:
        frame = trace.tb_frame
        if is_users(frame.f_code.co_filename) and not is_internal(frame):
            found = replace(span(frame), caller=found)
        trace = trace.tb_next
    return found
