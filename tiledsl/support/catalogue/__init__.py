"""The words of every error, one module per part of the compiler that raises them."""

from tiledsl.support.catalogue import (
    backend,
    checking,
    cuda,
    emulator,
    frontend,
    graphs,
    importers,
    ir_text,
    modules,
    onnx_models,
    ops,
    passes,
    reference,
    runtime,
    tuning,
)
from tiledsl.support.errors import register

for _part in (
    ir_text, frontend, checking, graphs, passes, backend, cuda, reference, runtime, emulator, modules, ops, importers,
    onnx_models, tuning,
):  # fmt: skip
    register(_part.ENTRIES)
