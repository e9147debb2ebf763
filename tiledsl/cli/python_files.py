"""Python files that commands are given: a kernel of one, or all that one defines."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from tiledsl.api import Kernel
from tiledsl.support.errors import TileError, fail


def split_target(target: str) -> tuple[Path, str]:
    """`FILE.py:KERNEL` as its two parts. Raises TileSyntaxError if it is not that."""
    file, colon, kernel = target.rpartition(":")
    if not colon or not file or not kernel.isidentifier():
        fail("command-target", None, target=target)
    return Path(file), kernel


def load_kernel(file: Path, name: str) -> Kernel:
    """A kernel of a Python file, which is run for it. Raises TileRuntimeError or TileTypeError if there is none."""
    names = load_names(file)
    found = names.get(name)
    if not isinstance(found, Kernel):
        kernels = [known for known, value in names.items() if isinstance(value, Kernel)]
        known = ", ".join(f"`{kernel}`" for kernel in kernels) or "it has none"
        fail("command-kernel", None, file=file, kernel=name, known=known)
    return cast("Kernel", found)


def load_names(file: Path) -> Mapping[str, object]:
    """What a Python file defines, by name; it is run for that. Raises TileRuntimeError if it cannot be."""
    module_spec = importlib.util.spec_from_file_location(file.stem, file)
    if module_spec is None or module_spec.loader is None:
        fail("command-file", None, file=file, reason="it is no Python file")
    module = importlib.util.module_from_spec(module_spec)
    sys.path.insert(0, str(file.resolve().parent))  # as `python FILE.py` would have it
    try:
        module_spec.loader.exec_module(module)
    except TileError:
        raise
    except Exception as error:
        fail("command-file", None, file=file, reason=f"{type(error).__name__}: {error}")
    finally:
        sys.path.pop(0)
    return vars(module)
