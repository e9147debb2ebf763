"""What people see of a running program: `tile.print`, `tile.assert_`."""

from __future__ import annotations

from tiledsl.backend_cuda.emit.element_texts import coordinate_text
from tiledsl.backend_cuda.emit.emit_access import joined
from tiledsl.backend_cuda.frame.kernel_code import Assertion, KernelParameter
from tiledsl.backend_cuda.frame.kernel_frame import KernelFrame
from tiledsl.backend_cuda.functions.reports import assertion, print_element, print_scalars
from tiledsl.backend_cuda.functions.storage import Slot, element_text
from tiledsl.ir.core import Value
from tiledsl.ir.tile_ops import Assert, Print


def emit_print(frame: KernelFrame, op: Print) -> None:
    """Scalars are printed by one thread in a line, tiles element by element by those that hold them."""
    scalars = [v for v in op.values if not v.shape]
    tiles = [v for v in op.values if v.shape]
    if scalars or not tiles:
        values = [(frame.scalar(v), v.dtype) for v in scalars]
        with frame.block(f"if ({frame.thread} == 0)"):
            frame.line(print_scalars(op.text, values))
    for value in tiles:
        _print_tile(frame, op.text, value)


def _print_tile(frame: KernelFrame, text: str, value: Value) -> None:
    layout = value.layout
    first = frame.is_first(layout)
    stored = frame.storage(value)
    with frame.block(f"if ({first})" if first else ""), frame.unrolled("s", layout.slots) as s:
        coordinates = [coordinate_text(frame, layout, axis, Slot(s)) for axis in range(layout.rank)]
        element = element_text(stored, Slot(s), frame.preamble)
        frame.line(print_element(text, coordinates, element, value.dtype))


def emit_assert(frame: KernelFrame, op: Assert) -> None:
    """The failure is noted, and the program goes on."""
    program = frame.program
    program.assertions.append(Assertion(op.text, op.location))
    number = len(program.assertions)
    record = frame.parameter(KernelParameter("failure"), "failures")
    condition = op.condition
    if not condition.shape:
        test = joined(f"{frame.thread} == 0", f"!{frame.scalar(condition)}")
        with frame.block(f"if ({test})"):
            frame.line(assertion("false", record, number, frame.program_number, frame.preamble))
        return
    stored = frame.storage(condition)
    holds = frame.names.fresh("holds")
    frame.line(f"bool {holds} = true;")
    with frame.unrolled("s", condition.layout.slots) as s:
        frame.line(f"{holds} = {holds} && {element_text(stored, Slot(s), frame.preamble)};")
    frame.line(assertion(holds, record, number, frame.program_number, frame.preamble))
