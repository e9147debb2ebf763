"""Which operators there are: for messages, and for the table in the documentation."""

# traced tensors have no types, nor have the objects of ONNX
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import NoReturn

from tiledsl.importers.onnx.model import Node
from tiledsl.importers.onnx.register import OPERATORS
from tiledsl.support.errors import fail
from tiledsl.support.suggest import suggest


def refuse_operator(node: Node) -> NoReturn:
    """Raises TileUnsupportedError: nothing here computes what a node asks for."""
    entries = OPERATORS.get((node.domain, node.op))
    if entries:
        first = min(entry.since for entry in entries)
        fail(
            "onnx-version", node.location,
            node=node.title, operator=node.operator, version=node.version, first=first,
        )  # fmt: skip
    known = [name for domain, name in OPERATORS if domain == node.domain]
    advice = suggest(node.op, known, "docs/models.md lists the operators that are supported")
    fail("onnx-operator", node.location, node=node.title, operator=node.operator, advice=advice)


def operator_table(families: Sequence[ModuleType]) -> str:
    """The operators of each family as a table in Markdown, with the opset from which on each is known."""
    lines = ["| family | operators |", "| --- | --- |"]
    for module in families:
        found: dict[str, int] = {}
        for entries in OPERATORS.values():
            for entry in entries:
                if entry.run.__module__ == module.__name__:
                    first = min(other.since for other in entries)
                    found[entry.title] = first
        subject = (module.__doc__ or "").splitlines()[0].rstrip(".").split(":")[0]
        names = (f"`{name}`" + (f" ({since})" if since > 7 else "") for name, since in sorted(found.items()))
        lines.append(f"| {subject} | {', '.join(names)} |")
    return "\n".join(lines)
