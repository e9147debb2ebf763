"""Puts elementwise ops around a call of a tile program into the program's loads and stores.

    %s = graph.map([%q, %c]) {fn = mul}
    %o = graph.call([%s, %k]) {callee = attend}     =>    %y = graph.call([%q, %k, %r]) {callee = attend_fused}
    %y = graph.map([%o, %r]) {fn = add}

A program that the user wrote stays one kernel, and what is around it costs no memory traffic of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir import graph_ops as ops
from tiledsl.ir import tile_ops
from tiledsl.ir.core import Function, Module, Op, Value, free_names
from tiledsl.ir.rewrite import Rewriter
from tiledsl.ir.symbolic import Dim, symbol_name, symbols_of
from tiledsl.ir.type_rules import tensor_type, tile_type
from tiledsl.ir.types import AxisType, TensorType
from tiledsl.ir.verifier import Form, is_tile_function
from tiledsl.passes.graph.analysis.shapes import sizes_of
from tiledsl.passes.graph.analysis.views import place_of
from tiledsl.passes.graph.groups.group import sort_by_use
from tiledsl.passes.graph.groups.map_chains import Chain, Leaf, consumers_of, producers_of
from tiledsl.passes.graph.groups.maps_in_programs import MapsInProgram, is_scattered
from tiledsl.passes.graph.rewrites.canonicalise_graph import drop_unread, tidy
from tiledsl.passes.manager import PassContext
from tiledsl.passes.tile.bounds import Bounds

CHEAP = 4
"""Simple operations for an element that may be done again wherever it is loaded."""
TENSORS = 3
"""At most so many tensors are loaded in the place of one."""


@dataclass(frozen=True)
class FuseIntoCalls:
    """Of the entry. `arch`: for what the kernels will be compiled."""

    name: ClassVar[str] = "fuse-into-calls"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH
    arch: str = "cpu"

    def run(self, module: Module, context: PassContext) -> Module:
        made: dict[object, Function] = {}
        functions = {f.name: f for f in module.functions}
        for op in list(module.entry.body.ops):
            if isinstance(op, ops.Call) and op.parent is not None and is_tile_function(functions[op.callee]):
                fused = _Fusion(op, functions[op.callee], module.entry, self.arch, context).run()
                if fused is None:
                    continue
                call, function = fused
                function.name = "program"
                known = made.setdefault(Module([function]).structure(locations=False), function)
                if known is function:
                    function.name = free_names(functions, f"{op.callee}_fused")
                    functions[function.name] = function
                call.attributes["callee"] = known.name
                drop_unread(module.entry.body)
                sort_by_use(module.entry)
        tidy(module.entry)
        called = ops.called_by(functions.values())
        return Module([f for f in functions.values() if f is module.entry or f.name in called])


class _Fusion:
    """One call, on its way to one of a larger program."""

    def __init__(self, call: ops.Call, callee: Function, entry: Function, arch: str, context: PassContext) -> None:
        self.call = call
        self.entry = entry
        self.arch = arch
        self.context = context
        self.program = MapsInProgram(callee.clone(), call.inputs)
        self.function = self.program.function
        self.changed = False
        self.gone: set[int] = set()
        """The parameters that are not loaded any more, by their number."""
        last = self.function.body.terminator
        assert isinstance(last, tile_ops.Return)
        self.returned = last
        self.tensors = list(last.values)
        """What the program gives back."""
        self.replaced: list[tuple[Value, TensorType]] = [(v, tensor_type(v)) for v in call.results]
        """The values of the graph that these are."""

    def run(self) -> tuple[ops.Call, Function] | None:
        """The new call, whose results all others read, and the new program; None if nothing goes into it."""
        for number in range(len(self.call.results)):
            self._consumers(number)
        inputs = list(self.call.inputs)
        for number, value in enumerate(inputs):
            if inputs.count(value) == 1:
                self._producers(number, value)
        if not self.changed:
            return None
        self.returned.set_field("values", self.tensors)
        self._drop_parameters()
        types = [TensorType(type_.dtype, type_.shape) for _, type_ in self.replaced]
        names = [value.name for value, _ in self.replaced]
        location, parent = self.call.location, self.call.parent
        assert parent is not None
        shaped: list[Value] = []
        for parameter, value in zip(self.function.parameters, self.program.inputs):
            shaped.append(self._shaped(parameter, value))
        call = ops.Call(location, inputs=shaped, callee=self.function.name, types=types, result_names=names)
        parent.insert_before(self.call, call)
        inside = {self.call, call}
        for (old, _), new in zip(self.replaced, call.results):
            for user in list(old.users):
                if user not in inside:
                    user.replace_operand(old, new)
        return call, self.function

    def _shaped(self, parameter: Value, value: Value) -> Value:
        """An input without the axes of one element that its parameter lacks."""
        if isinstance(parameter.type, AxisType) or len(parameter.type.shape) == len(sizes_of(value)):
            return value
        assert self.call.parent is not None
        shape = tuple(n for n in sizes_of(value) if n != 1)
        op = ops.Reshape(self.call.location, source=value, shape=shape, result_names=[value.name])
        self.call.parent.insert_before(self.call, op)
        return op.result

    def _drop_parameters(self) -> None:
        """Takes out the parameters whose loads are gone."""
        parameters = self.function.body.arguments
        kept = [i for i in range(len(parameters)) if i not in self.gone]
        self.program.inputs = [self.program.inputs[i] for i in kept]
        self.function.body.arguments = [parameters[i] for i in kept]

    def _remark(self, op: Op, text: str) -> None:
        self.context.remark(FuseIntoCalls.name, op.location, text)

    def _parameters(self, chain: Chain, tensor: Value) -> dict[Leaf, Value]:
        """A parameter for each tensor that a chain reads at the subscripts of `tensor`."""
        found: dict[Leaf, Value] = {}
        for leaf in chain.tensors:
            shape = tuple(n for n in sizes_of(leaf.base) if n != 1)
            place = place_of(leaf.base, shape) if shape else None
            unit = None if place is None else place.unit
            found[leaf] = self.program.parameter(leaf, tensor_type(tensor).shape, unit)
        return found

    # Behind

    def _consumers(self, number: int) -> None:
        value, tensor = self.call.results[number], self.tensors[number]
        chain = consumers_of(value, self.call, self.entry)
        if chain is None:
            return
        what = f"what reads %{value.name or number} of @{self.call.callee} is not put into its stores"
        stores = [op for op in tensor.users if isinstance(op, tile_ops.Store) and op.tensor is tensor]
        made = tensor.op
        shared = len(stores) != len(tensor.users) - 1 or self.tensors.count(tensor) > 1
        if not isinstance(made, tile_ops.Empty) or made.fill is not None or shared:
            self._remark(chain.maps[0], f"{what}: the program reads, combines or fills it")
            return
        if any(is_scattered(store.indices) for store in stores):
            self._remark(chain.maps[0], f"{what}: it is stored at computed coordinates")
            return
        if len(chain.outputs) > 2 or len(chain.tensors) > TENSORS:
            self._remark(chain.maps[0], f"{what}: too many tensors go in or out")
            return
        parameters = self._parameters(chain, tensor)
        outputs = [self._empty(made, output) for output in chain.outputs]
        for store in stores:
            rewriter = Rewriter(store)
            tile = tile_type(store.value)
            found = self.program.emit(chain, rewriter, {value: store.value}, tile, store.indices, parameters)
            for output, out in zip(chain.outputs, outputs):
                rewriter.emit(tile_ops.Store, tensor=out, indices=store.indices, value=found[output])
            store.erase()
        self._return(number, chain.outputs, outputs)
        self.changed = True
        for place in dict.fromkeys(op.location for op in chain.maps):
            self.context.remark(FuseIntoCalls.name, place, f"computed where @{self.call.callee} stores its result")

    def _empty(self, like: tile_ops.Empty, value: Value) -> Value:
        type_ = tensor_type(value)
        made = tile_ops.Empty(like.location, shape=like.shape, dtype=type_.dtype, result_names=[value.name or "out"])
        assert like.parent is not None
        like.parent.insert_before(like, made)
        return made.result

    def _return(self, number: int, outputs: list[Value], tensors: list[Value]) -> None:
        """Gives back `tensors` in the place of result `number`, one more at the end if there are two."""
        old = self.tensors[number]
        first, *more = zip(outputs, tensors)
        self.tensors[number] = first[1]
        self.replaced[number] = (first[0], tensor_type(first[0]))
        for output, tensor in more:
            self.tensors.append(tensor)
            self.replaced.append((output, tensor_type(output)))
        self.returned.set_field("values", self.tensors)
        assert old.op is not None
        old.op.erase()

    # In front

    def _producers(self, number: int, value: Value) -> None:
        parameter = self.function.parameters[number]
        chain = producers_of(value, self.call, self.entry)
        if chain is None or not isinstance(parameter.type, TensorType):
            return
        what = f"%{value.name or number} is not computed where @{self.call.callee} loads it"
        top = chain.maps[-1] if chain.maps else value.op
        assert top is not None
        for leaf in chain.tensors:
            base = leaf.base.op
            if base is not None and not isinstance(base, (ops.Call, *_VIEWS)):
                self._remark(top, f"{what}: a kernel makes what it is computed from, and can make it too")
                return
        loads = [op for op in parameter.users if isinstance(op, tile_ops.Load)]
        reason = self._refusal(parameter, loads, chain)
        if reason is not None:
            self._remark(top, f"{what}: {reason}")
            return
        parameters = self._parameters(chain, parameter)
        for load in loads:
            rewriter = Rewriter(load)
            tile = tile_type(load.result)
            found = self.program.emit(chain, rewriter, {}, tile, load.indices, parameters)
            rewriter.replace(load, found[value])
        self.gone.add(number)
        self.changed = True
        for place in dict.fromkeys(op.location for op in chain.maps or [top]):
            self.context.remark(FuseIntoCalls.name, place, f"computed where @{self.call.callee} loads it")

    def _refusal(self, parameter: Value, loads: list[tile_ops.Load], chain: Chain) -> str | None:
        """Why a chain does not go in front of the loads of a parameter."""
        if len(loads) != len(parameter.users) or any(is_scattered(op.indices) for op in loads):
            return "it is read at computed coordinates, or written to"
        if any(tile_type(op.result).level is not None for op in loads):
            return "the program says a level for it"
        if len(chain.tensors) > TENSORS:
            return f"{len(chain.tensors)} tensors would be loaded in its place"
        if self.arch.startswith("sm_") and any(_is_operand(op.result) for op in loads):
            return "matrix instructions want it in memory as it is"
        if chain.cost > CHEAP and (len(loads) > 1 or any(not _is_once(op) for op in loads)):
            return f"the program loads it more than once, and {chain.cost} operations are too many to repeat"
        if not self._in_bounds(parameter):
            return "the program may read beyond it"
        others = [p for i, p in enumerate(self.function.parameters) if p is not parameter and i not in self.gone]
        told = {name for other in others for name in _told(other)}
        told |= {symbol_name(_dim(parameter, axis)) for leaf in chain.tensors for axis in leaf.axes}
        if any(name not in told for dim in tensor_type(parameter).shape for name in symbols_of(dim)):
            return "nothing else would say how large it is"
        return None

    def _in_bounds(self, parameter: Value) -> bool:
        """Whether no load of a parameter can fall outside of it."""
        number = self.function.parameters.index(parameter)
        copy = self.function.clone()
        Bounds().run(Module([copy]), PassContext())
        tensor = copy.parameters[number]
        loads = [op for op in copy.walk() if isinstance(op, tile_ops.Load) and op.tensor is tensor]
        return all(len(op.in_bounds) == len(op.indices) for op in loads)


_VIEWS = (ops.Transpose, ops.Reshape, ops.Slice, ops.Broadcast, ops.Constant, ops.Size)


def _dim(parameter: Value, axis: int) -> Dim:
    return tensor_type(parameter).shape[axis]


def _told(parameter: Value) -> set[str]:
    if not isinstance(parameter.type, TensorType):
        return set()
    return {name for dim in parameter.type.shape if (name := symbol_name(dim)) is not None}


def _is_operand(value: Value) -> bool:
    """Whether a product reads a tile as it was loaded, transposed or not."""
    for user in value.users:
        if isinstance(user, tile_ops.Dot) and value in (user.a, user.b):
            return True
        if isinstance(user, (tile_ops.Transpose, tile_ops.Reshape)) and _is_operand(user.result):
            return True
    return False


def _is_once(op: tile_ops.Load) -> bool:
    """Whether each element is loaded by one program, once: the subscripts have every axis that is gone through."""
    block = op.parent
    while block is not None and block.parent is not None:
        around = block.parent
        if isinstance(around, (tile_ops.Grid, tile_ops.Range)):
            count = len(around.body.arguments) if isinstance(around, tile_ops.Grid) else 1
            if any(axis not in op.indices for axis in around.body.arguments[:count]):
                return False
        block = around.parent
    return True
