"""Programs that do in one thread what a formula says for many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tiledsl.frontend.trace.trace import Trace
from tiledsl.ir.graph_ops import Call, Serial


def record_serial(
    trace: Trace, values: Sequence[Any], serial: Sequence[Any], *, on_gpus: bool = False
) -> tuple[Any, ...]:
    """Records `graph.serial`: `values`, or what a call of a kernel in tile form gave, `serial`, which are the same.

    The call is not made where the values are taken: on GPUs, or, `on_gpus`, on CPUs.
    """
    call = serial[0].value.op
    assert isinstance(call, Call), "no call of a program"
    assert [x.value for x in serial] == list(call.results), "not all that the call gives"
    op = trace.builder.emit(
        Serial, values=[x.value for x in values], inputs=call.inputs, callee=call.callee, on_gpus=on_gpus
    )
    call.erase()
    return tuple(trace.tensor(result) for result in op.results)
