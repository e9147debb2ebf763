"""Functions computed lane by lane by the C mathematics library, which every process has loaded."""

from __future__ import annotations

from tiledsl.backend_cpu.functions.lanes import Lanes


def call_library(lanes: Lanes, name: str, *operands: str) -> str:
    """The C function `name` applied to each lane of f64, or its f32 form, `name` with an f."""
    writer, type_ = lanes.writer, lanes.type
    element = type_.element
    symbol = name if type_.dtype.bits == 64 else f"{name}f"
    if type_.lanes == 1:
        return writer.call(symbol, element, [(element, v) for v in operands])
    result = "poison"
    for lane in range(type_.lanes):
        scalars = [writer.emit(f"extractelement {type_} {v}, i64 {lane}") for v in operands]
        value = writer.call(symbol, element, [(element, v) for v in scalars])
        result = writer.emit(f"insertelement {type_} {result}, {element} {value}, i64 {lane}")
    return result
