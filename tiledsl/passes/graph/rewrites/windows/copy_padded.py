"""Windows of what is padded that are only put in another order are copied by a group, which takes them of what is not
padded.

    %w = graph.window(graph.pad(%x))                  %w = graph.window(graph.pad(%x))
    %t = graph.transpose(%w)                          %c = graph.cast(%w) to its own dtype
    %c = graph.reshape(%t), no view of memory   =>    %t = graph.transpose(%c)
                                                      %c = graph.reshape(%t)

So patches of an image as columns are one kernel that reads the image, and nothing padded is in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Module, Value
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.verifier import Form
from tiledsl.passes.graph.analysis.outline import is_soft, padding_of
from tiledsl.passes.graph.analysis.views import view_of_value
from tiledsl.passes.manager import PassContext


@dataclass(frozen=True)
class CopyPadded:
    """Of the entry, on GPUs."""

    name: ClassVar[str] = "copy-padded"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH
    arch: str = "cpu"

    def run(self, module: Module, context: PassContext) -> Module:
        windows = [op for op in module.entry.body.ops if isinstance(op, ops.Window)]
        for op in windows if self.arch.startswith("sm_") else []:
            if padding_of(op) is None or not _is_copied(op.result):
                continue
            same = ops.Cast(op.location, source=op.result, dtype=tensor_type(op.result).dtype)
            op.result.replace_with(same.result)
            same.set_field("source", op.result)
            block = module.entry.body
            block.insert_before(block.ops[block.ops.index(op) + 1], same)
            context.remark(self.name, op.location, "windows of what is padded are copied of what is not")
        return module


def _is_copied(value: Value) -> bool:
    """Whether all that becomes of a value is a reshape that strides cannot tell, or that it is given back."""
    return bool(value.users) and all(
        isinstance(user, ops.Return)
        or (isinstance(user, ops.Reshape) and not is_soft(user) and view_of_value(user.result) is None)
        or (is_soft(user) and _is_copied(user.results[0]))
        for user in value.users
    )
