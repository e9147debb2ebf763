"""The back end that ONNX's own tools and tests call: `onnx.backend.base.Backend`.

from tiledsl.importers.onnx import backend
outputs = backend.prepare(model, device="CPU").run([x])
"""

# traced tensors have no types, nor have the objects of ONNX
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import onnx
from onnx.backend.base import Backend, BackendRep, namedtupledict

from tiledsl.importers.onnx.model import Model
from tiledsl.importers.onnx.program import OnnxProgram
from tiledsl.importers.onnx.read import model_of, read_model
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import TileError, fail


class PreparedModel(BackendRep):
    """A model that is ready to run."""

    def __init__(self, model: Model, arch: str | None = None) -> None:
        self.program = OnnxProgram(model, arch)

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs for a list of inputs in order, one array if there is one input, or a dict by name."""
        wanted = [value.name for value in self.program.model.graph.inputs]
        if isinstance(inputs, Mapping):
            named = cast("Mapping[str, Any]", inputs)
            unknown = [name for name in named if name not in wanted]
            if unknown:
                model, names = self.program.model.file, ", ".join(wanted)
                fail("onnx-no-input", caller_location(), model=model, name=unknown[0], names=names)
            given = [named[name] for name in wanted if name in named]
        else:
            given = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        try:
            outputs = self.program(*given)
        except TileError as error:
            raise error.with_traceback(None) from error.__cause__  # the user's lines, not the compiler's
        names = [value.name for value in self.program.model.graph.outputs]
        return namedtupledict("Outputs", names)(*outputs)


class TileBackend(Backend):
    """Models on the CPU. Arrays of NumPy in and out."""

    @classmethod
    def is_compatible(cls, model: Any, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether the device is there; operators are looked at when the model runs."""
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> PreparedModel:
        """A model (an `onnx.ModelProto`, a path or bytes) that is ready to run. Raises TileError.

        `arch="reference"`: op by op in NumPy, instead of compiled.
        """
        if not cls.supports_device(device):
            fail("onnx-device", caller_location(), device=device)
        return PreparedModel(read_model(model), kwargs.get("arch"))

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """The outputs of a model. Raises TileError."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls, node: Any, inputs: Any, device: str = "CPU", outputs_info: Any = None, **kwargs: Any
    ) -> tuple[Any, ...]:
        """The outputs of one node of the newest opset. Raises TileError."""
        ins, outs = (
            [onnx.helper.make_empty_tensor_value_info(name) for name in dict.fromkeys(names) if name]
            for names in (node.input, node.output)
        )
        model = onnx.helper.make_model(onnx.helper.make_graph([node], "node", ins, outs))
        return PreparedModel(model_of(model, "<node>")).run(list(inputs))

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """`CPU`."""
        return device.split(":")[0] == "CPU"


is_compatible = TileBackend.is_compatible
prepare = TileBackend.prepare
run_model = TileBackend.run_model
run_node = TileBackend.run_node
supports_device = TileBackend.supports_device
