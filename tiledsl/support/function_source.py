"""The source text of a function, also of one that was given to Python on its command line or by its standard input."""

from __future__ import annotations

import inspect
import linecache
import os
import stat
import sys
import tokenize
from collections.abc import Iterator
from types import CodeType, FunctionType


def source_lines(function: FunctionType) -> tuple[list[str], int]:
    """The lines of a function, decorators included, and the number of the first one. OSError if they cannot be read.

    Python 3.13 and later keep what is typed at the prompt and what `python -c` runs. Before, the latter is still in the
    command line; and what came from a file by the standard input is read again.
    """
    code = function.__code__
    if code.co_filename not in linecache.cache and code.co_filename in ("<string>", "<stdin>"):
        for text in _programs(code.co_filename):
            if _holds(text, code):
                lines = text.splitlines(keepends=True)
                linecache.cache[code.co_filename] = (len(text), None, lines, code.co_filename)
    try:
        return inspect.getsourcelines(function)
    except (TypeError, SyntaxError, tokenize.TokenError) as error:  # not Python, or not a whole piece of it
        raise OSError(str(error)) from error


def _programs(file: str) -> Iterator[str]:
    """What Python may have been given to run."""
    if file == "<string>":
        arguments = sys.orig_argv
        if "-c" in arguments[:-1]:
            yield arguments[arguments.index("-c") + 1]
        return
    try:
        status = os.fstat(0)
        if stat.S_ISREG(status.st_mode) and hasattr(os, "pread"):
            yield os.pread(0, status.st_size, 0).decode()
    except (OSError, ValueError):
        return


def _holds(text: str, code: CodeType) -> bool:
    """Whether a program defines just this function: `exec` gives the same file name to whatever it runs."""
    try:
        waiting = [compile(text, code.co_filename, "exec", dont_inherit=True)]
    except (SyntaxError, ValueError):
        return False
    while waiting:
        inner = waiting.pop()
        if inner == code:
            return True
        waiting += [constant for constant in inner.co_consts if isinstance(constant, CodeType)]
    return False
