"""The user's line and the path of modules that a node of PyTorch's graphs comes from."""

from __future__ import annotations

import linecache
import re
from functools import lru_cache
from typing import Any

import torch

from tiledsl.importers.torch.user_lines import is_users
from tiledsl.support.location import Location

_FRAME = re.compile(r'^\s*File "(.+)", line (\d+), in .*?(?:, columns (\d+)-(\d+))?$', re.MULTILINE)


def location_of(node: Any) -> Location | None:
    """The innermost line outside of PyTorch, with the calls that led to it; None if the node does not tell."""
    return _location(node.meta.get("stack_trace") or "")


@lru_cache(maxsize=4096)
def _location(trace: str) -> Location | None:
    found: Location | None = None
    for file, line, first, last in _FRAME.findall(trace):
        if is_users(file):
            text = linecache.getline(file, int(line)).rstrip()
            indent = len(text) - len(text.lstrip())
            start, end = int(first or indent + 1), int(last or max(len(text), indent + 1) + 1)
            found = Location(file, int(line), start, int(line), end, found)
    return found


def module_path(node: Any) -> str:
    """The path of the module that the node is of, with its class; empty for the model itself: `layer1.0 (Block)`."""
    stack: list[Any] = list(node.meta.get("nn_module_stack", {}).values())
    if not stack:
        return ""
    path = re.sub(r"^L\['self'\]\.?", "", str(stack[-1][0]))
    kind: Any = stack[-1][1]
    name = str(getattr(kind, "__name__", kind)).rpartition(".")[2]
    return f"`{path}` ({name})" if path else ""


def described(node: Any) -> str:
    """A node in messages: ``aten.add.Tensor of `layer1.0` (BasicBlock)``."""
    path, name = module_path(node), operator_name(node.meta.get("draws", node.target))
    return f"{name} in {path}" if path else name


def operator_name(target: Any) -> str:
    """The name of what a node calls: `aten.add.Tensor`."""
    return str(target) if isinstance(target, torch._ops.OpOverload) else getattr(target, "__name__", str(target))
