"""Which operators there are: for messages, and for the table in the documentation."""

# traced tensors have no types, nor have the objects of ONNX
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from typing import Any, NoReturn

from onnx import defs

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


def made_of_others() -> list[str]:
    """The operators that ONNX defines by others, and that have no entry of their own."""
    names: set[str] = set()
    schemas: Any = defs.get_all_schemas()
    for schema in schemas:
        made = schema.has_function or schema.has_context_dependent_function
        if made and (schema.domain, schema.name) not in OPERATORS:
            names.add(f"{schema.domain}.{schema.name}" if schema.domain else schema.name)
    return sorted(names)
