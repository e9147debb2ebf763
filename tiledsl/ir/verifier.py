"""Checks that a module is well formed and in the form that a pass, a back end or an executor asks for.

What holds in every form is written in `_FunctionVerifier`: scoping, use lists, types, bodies. What one form demands
more is a row of `RULES`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from functools import lru_cache
from typing import NoReturn, TypeAlias, cast

from tiledsl.ir import graph_ops, tile_ops
from tiledsl.ir.core import Block, Function, InvalidIRError, Module, Op, Value
from tiledsl.ir.dtypes import bool_, i64
from tiledsl.ir.gpu import gpu_ops
from tiledsl.ir.gpu.async_ops import TmaStore
from tiledsl.ir.gpu.async_rules import async_work_can_run, roles_stand_where_they_may
from tiledsl.ir.gpu.gpu_rules import is_gpu_op, stands_where_it_may, threads_can_run, tiles_are_laid_out
from tiledsl.ir.gpu.layout_rules import layouts_agree
from tiledsl.ir.legality import IllegalError, demand, named
from tiledsl.ir.symbolic import Dim, symbol_name, symbols_of
from tiledsl.ir.text.printer import IDENTIFIER
from tiledsl.ir.types import AxisType, BlockSize, Slice, TensorType, TileType, Type, same_but_level, scalar
from tiledsl.support.errors import fail
from tiledsl.support.location import Location


class Form(Enum):
    """What a pass may rely on, or has to give. The values are the names in text (`requires`, dumps, messages)."""

    GRAPH = "graph"
    TILE = "tile"
    TILE_PLACED = "tile-placed"
    TILE_TILED = "tile-tiled"
    GPU = "gpu"


# The rules of the forms, each about one op

Rule: TypeAlias = Callable[[Op], None]


def is_graph_op(op: Op) -> None:
    """Only ops of the GRAPH vocabulary."""
    demand(op.name.startswith("graph."), "is no op of the GRAPH vocabulary", "see ir/graph_ops.py for what there is")
    for value in op.results:
        if not isinstance(value.type, TensorType):
            raise IllegalError(
                f"{named(value)} is {value.type}, no tensor", "a scalar of a graph is a tensor of rank 0"
            )


def is_tile_op(op: Op) -> None:
    """Only ops of the TILE vocabulary."""
    demand(op.name.startswith("tile."), "is no op of the TILE vocabulary", "see ir/tile_ops.py for what there is")


def tiles_have_levels(op: Op) -> None:
    """Every tile, result or argument of a body, is in registers or in shared memory."""
    values = op.results
    if op.bodies:
        values = (*values, *(argument for body in op.bodies.values() for argument in body.arguments))
    for value in values:
        if isinstance(value.type, TileType) and value.type.shape and value.type.level is None:
            raise IllegalError(f"{named(value)} has no level", "run the pass place-levels, or write `register`")


def blocks_are_chosen(op: Op) -> None:
    """No block size is `auto`."""
    if isinstance(op, (tile_ops.Grid, tile_ops.Range)):
        auto = BlockSize.auto() in op.blocks
        demand(not auto, "a block size is still `auto`", "run the pass infer-tiling, or write a size")


RULES: dict[Form, tuple[Rule, ...]] = {
    Form.GRAPH: (is_graph_op,),
    Form.TILE: (is_tile_op,),
    Form.TILE_PLACED: (is_tile_op, tiles_have_levels),
    Form.TILE_TILED: (is_tile_op, tiles_have_levels, blocks_are_chosen),
    Form.GPU: (is_gpu_op, stands_where_it_may, roles_stand_where_they_may, tiles_are_laid_out),
}
TYPED_RULES: dict[Form, tuple[Rule, ...]] = {Form.GPU: (layouts_agree, async_work_can_run, threads_can_run)}
"""Rules for ops whose operands and results are known to be well typed."""


def verify(module: Module, form: Form = Form.TILE) -> None:
    """Raises TileSyntaxError (`ir-invalid`) or TileLayoutError (`ir-layouts`), located at the op.

    It does so unless `module` is well formed and in `form`.
    In a module of form GRAPH the functions that are called may be of form TILE.
    """
    names: set[str] = set()
    places = {function.name: (place, function) for place, function in enumerate(module.functions)}
    for function in module.functions:
        if function.name in names or not IDENTIFIER.fullmatch(function.name):
            problem = "the name is taken" if function.name in names else "the name is no identifier"
            _fail(form, f"@{function.name}", function.location, problem, "give the function another name")
        names.add(function.name)
        called = form is Form.GRAPH and function is not module.entry and is_tile_function(function)
        _FunctionVerifier(places, function, Form.TILE if called else form).verify()


def is_tile_function(function: Function) -> bool:
    """Whether a function of a graph's module is a tile program, which `graph.call` runs."""
    return isinstance(function.body.terminator, tile_ops.Return)


def _fail(
    form: Form, op: str, location: Location | None, problem: str, fix: str, pictures: Sequence[str] = ()
) -> NoReturn:
    notes = [picture.replace("\n", "\n    ") for picture in pictures]
    code = "ir-layouts" if pictures else "ir-invalid"
    fail(code, location, notes=notes, form=form.value, op=op, problem=problem, fix=fix)


class _FunctionVerifier:
    """Walks one function in order, keeping what is in scope.

    `places` has the functions of the module and their order, by name.
    `visible` holds the values that may be read here, `defined` the same in order, `sizes` the symbols that may be
    spoken of, `reads` every operand slot met so far, `around` the ops whose bodies we are in.
    """

    def __init__(self, places: Mapping[str, tuple[int, Function]], function: Function, form: Form) -> None:
        self.places = places
        self.function = function
        self.form = form
        self.visible: set[Value] = set()
        self.defined: list[Value] = []
        self.sizes: set[str] = set()
        self.declared: set[str] = set()
        self.reads: dict[Value, dict[Op, int]] = {}
        self.seen: set[Op] = set()
        self.around: list[tuple[Op, str]] = []

    def verify(self) -> None:
        function = self.function
        try:
            self.parameters()
            last = function.body.terminator
            ends = last is not None and last.name.endswith(".return")
            demand(ends, "does not end in a return", "end the function with `tile.return([...])`")
            demand(function.body.parent is None, "its body belongs to an op", "give the function a body of its own")
        except IllegalError as error:
            _fail(self.form, f"@{function.name}", function.location, error.problem, error.fix)
        self.block(function.body)
        for value in self.reads:
            self.uses(value)

    def parameters(self) -> None:
        for parameter in self.function.parameters:
            type_ = parameter.type
            plain = isinstance(type_, TensorType) or (isinstance(type_, TileType) and not type_.shape)
            fix = "tiles and axes live inside of functions only"
            demand(plain, f"parameter {named(parameter)} is neither a tensor nor a scalar", fix)
            for name in sorted(_symbols_in_type(type_)):
                legal = IDENTIFIER.fullmatch(name) is not None
                demand(legal, f"the size `{name}` of {named(parameter)} is no identifier", "give it another name")
            self.sizes |= _symbols_in_type(type_)
            self.dims_of_type(type_, lambda parameter=parameter: named(parameter))
            self.define(parameter, self.function.body)
        self.sizes_are_told()
        self.declared = set(self.sizes)
        for fact in self.function.facts:
            self.dims((fact.dim,), f"the fact `{fact}`")
            holds = not isinstance(fact.dim, int) or fact.dim % fact.divisor == 0
            demand(holds, f"the fact `{fact}` does not hold", "leave it out, or correct the size")

    def sizes_are_told(self) -> None:
        """Every size symbol can be read from the shape of an argument."""
        dims = [dim for parameter in self.function.parameters for dim in _dims_in_type(parameter.type)]
        told = {symbol_name(dim) for dim in dims}
        for name in sorted(self.sizes):
            demand(name in told, f"no parameter has an axis of size `{name}` alone", "give one of them such an axis")

    # Blocks and scopes

    @contextmanager
    def scope(self, op: Op, name: str) -> Generator[None]:
        """What is defined inside is forgotten at the end."""
        defined, sizes = len(self.defined), set(self.sizes)
        self.around.append((op, name))
        yield
        self.around.pop()
        # not a copy of all that is visible: folds have bodies too, and a long function has many
        self.visible.difference_update(self.defined[defined:])
        del self.defined[defined:]
        self.sizes = sizes

    def block(self, block: Block) -> None:
        for op in block.ops:
            self.op(op, block)

    def define(self, value: Value, owner: Op | Block) -> None:
        if value.owner is not owner:
            raise IllegalError(f"{named(value)} names another owner", "build a new value instead of moving it")
        if value not in self.visible:
            self.visible.add(value)
            self.defined.append(value)
        self.reads.setdefault(value, {})

    def uses(self, value: Value) -> None:
        """The use list of a value is what was met in the walk."""
        if value.users == self.reads[value]:
            return
        extra = [op for op in value.users if op not in self.reads[value]]
        op = value.op or (extra or list(self.reads[value]))[0]
        problem = f"the use list of {named(value)} is wrong"
        fix = "change operands by `replace_operand` or `set_field`, and take ops out by `erase`"
        _fail(self.form, op.name, op.location, problem, fix)

    # One op

    def op(self, op: Op, block: Block) -> None:
        try:
            self.check(op, block)
        except IllegalError as error:
            _fail(self.form, op.name, op.location, error.problem, error.fix, error.pictures)
        except InvalidIRError as error:
            _fail(self.form, op.name, op.location, str(error), "make the operands and attributes fit each other")

    def check(self, op: Op, block: Block) -> None:
        # without this test the message itself could not be made
        located = isinstance(cast(object, op.location), Location) and bool(op.location.file) and op.location.line > 0
        demand(located, "has no location", "hand on the location of the op that it is made from")
        demand(op not in self.seen, "stands in two places", "clone the op")
        self.seen.add(op)
        demand(op.parent is block, "names another parent", "insert ops by `append` or `insert_before`")
        for rule in RULES[self.form]:
            rule(op)
        signature = self.operands(op)
        typed = _known_to_be_typed(op, signature)
        if typed is None or not typed <= self.sizes:
            self.slices(op)
            self.attributes(op)
        self.place(op, block)
        for name, body in op.bodies.items():
            demand(body.parent is op, f"the body `{name}` names another parent", "give every op a body of its own")
            self.body(op, name, body)
        if typed is not None and typed <= self.sizes:
            for value in op.results:
                self.define(value, op)
        else:
            self.results(op)
            op.typed = signature, _symbols_in_op(op)
        for rule in TYPED_RULES.get(self.form, ()):
            rule(op)

    def operands(self, op: Op) -> list[object]:
        """What the op reads is defined. Gives all that its types are checked by: see `Op.typed`."""
        signature: list[object] = [*op.attributes.values()]
        for field in op.fields.values():
            items = field if isinstance(field, tuple) else (field,)
            signature.append(len(items))
            for item in items:
                if isinstance(item, Value):
                    self.read(item, op)
                    signature.append(item.type)
                else:
                    signature.append(item)
        signature += [value.type for value in op.results]
        return signature

    def read(self, value: Value, op: Op) -> None:
        if value not in self.visible:
            raise IllegalError(
                f"reads {named(value)}, which is not defined before it",
                "define the value above, in this block or in one around it",
            )
        users = self.reads[value]
        users[op] = users.get(op, 0) + 1

    def slices(self, op: Op) -> None:
        for item in _slices(op):
            self.dims((item.start, item.stop), f"the slice `{item}`")

    def attributes(self, op: Op) -> None:
        for name, field in op.attribute_fields.items():
            value = op.attributes[name]
            if field.kind in ("shape", "ints", "blocks"):
                demand(isinstance(value, tuple), f"`{name}` is no tuple", "a list would not equal what text gives")
            match field.kind:
                case "dim":
                    self.dims((value,), f"`{name}`")
                case "shape":
                    self.dims(value, f"`{name}`")
                case "blocks":
                    positive = all(block.kind == "auto" or min(block.size, block.unit) > 0 for block in value)
                    demand(positive, "a block size is less than 1", "write a size of at least 1, or `auto`")
                case "name":
                    known = not field.choices or value in field.choices
                    demand(known, f"`{name}` is `{value}`", "write one of: " + ", ".join(field.choices))
                case _:
                    pass

    def results(self, op: Op) -> None:
        calls = isinstance(op, (graph_ops.Serial, graph_ops.Call, graph_ops.Loop))
        inferred = self.call(op) if calls else op.infer_types()
        demand(len(op.results) == len(inferred), f"gives {len(inferred)} results", "build the op anew")
        for value, type_ in zip(op.results, inferred):
            # every result of every op: texts are made only where there is something to say
            if not same_but_level(value.type, type_):
                problem = f"{named(value)} is {value.type}, but the op gives {type_}"
                raise IllegalError(problem, "build the op anew")
            self.dims_of_type(value.type, lambda value=value: named(value))
            self.define(value, op)

    def call(self, op: graph_ops.Serial | graph_ops.Call | graph_ops.Loop) -> tuple[Type, ...]:
        """The result types of a call or a loop, from the function that it names."""
        place, callee = self.places.get(op.callee, (-1, self.function))
        # the order keeps functions from calling themselves, through others too
        if place <= self.places[self.function.name][0]:
            problem = f"calls @{op.callee}, which is no function after @{self.function.name}"
            raise IllegalError(problem, "put the callee after its callers")
        if isinstance(op, graph_ops.Call):
            return graph_ops.call_types(callee, op.inputs)
        if isinstance(op, graph_ops.Serial):
            given = graph_ops.call_types(callee, op.inputs)
            demand(given == op.infer_types(), f"@{op.callee} gives other types", "call a program that gives the same")
            return given
        demand(
            not is_tile_function(callee), f"runs the tile program @{op.callee}", "call it in a function of the graph"
        )
        return graph_ops.loop_types(callee, op)

    def dims(self, dims: Sequence[Dim], what: str) -> None:
        """All symbols are in scope."""
        for dim in dims:
            if not symbols_of(dim) <= self.sizes:
                name = min(symbols_of(dim) - self.sizes)
                raise IllegalError(
                    f"{what} speaks of the size `{name}`, which is not in scope",
                    "sizes come from parameters and from the blocks of the grids and ranges around an op",
                )

    def dims_of_type(self, type_: Type, what: Callable[[], str]) -> None:
        if not _symbols_in_type(type_) <= self.sizes:
            self.dims(_dims_in_type(type_), what())
        for dim in _dims_in_type(type_):
            if isinstance(dim, int) and dim < 0:
                raise IllegalError(f"{what()} has the size {dim}", "sizes are not negative")

    # Where ops may stand

    def place(self, op: Op, block: Block) -> None:
        inside = [kind for kind, _ in self.around]
        if op.effect == "terminator":
            demand(op is block.ops[-1], "ends its block, but ops follow", "put it last")
            returns = op.name.endswith(".return")
            demand(returns == (not inside), "stands where it cannot", "end functions by a return, bodies by a yield")
        if isinstance(op, tile_ops.Grid):
            demand(not inside, f"stands inside of a `{inside[-1].name if inside else ''}`", "grids are not nested")
        if isinstance(op, tile_ops.Empty):
            in_grid = any(isinstance(outer, tile_ops.Grid) for outer in inside)
            demand(not in_grid, "makes a tensor inside of a grid", "make it before the grid, or broadcast a scalar")
        for _, name in self.around:
            if name == "combiner":
                pure = op.effect in ("pure", "terminator") and all(_is_scalar(v) for v in op.results)
                demand(pure, "stands in a combiner", "a combiner is made of pure ops on scalars")
            if name == "condition":
                outside = isinstance(op, (gpu_ops.Store, gpu_ops.Atomic, TmaStore))
                inside_only = op.name.startswith("gpu.") and not outside
                writes = op.effect == "write" and not inside_only  # registers and shared memory are the threads' own
                demand(not writes, "writes in a condition", "write in the body of the loop")

    # Bodies

    def body(self, op: Op, name: str, body: Block) -> None:
        with self.scope(op, name):
            self.arguments(op, name, body)
            self.block(body)
            self.yields(op, name, body)

    def arguments(self, op: Op, name: str, body: Block) -> None:
        for argument in body.arguments:
            self.define(argument, body)
        blocks: Iterable[tuple[Value, BlockSize]] = ()
        if isinstance(op, tile_ops.Grid):
            blocks = zip(body.arguments, op.blocks)
        elif isinstance(op, tile_ops.Range):
            blocks = zip(body.arguments[:1], op.blocks)
        elif isinstance(op, tile_ops.For):
            counts = bool(body.arguments) and body.arguments[0].type == scalar(i64)
            demand(counts, "the first argument of the body must be an i64 scalar", "it is the loop's index")
        elif isinstance(op, tile_ops.While) and name == "condition":
            for before, inside in zip(op.initial, body.arguments):
                fits = same_but_level(before.type, inside.type)
                demand(fits, f"{named(inside)} starts as {before.type}", "the condition takes the carried values")
        for argument, size in blocks:
            self.declare(argument, size)
        for argument in body.arguments:
            self.dims_of_type(argument.type, lambda argument=argument: named(argument))

    def declare(self, argument: Value, size: BlockSize) -> None:
        """The extent of a block is a new symbol, or made of what is known."""
        if not isinstance(argument.type, AxisType):
            plain = argument.type == scalar(i64) and size == BlockSize.fixed(1)
            demand(plain, f"{named(argument)} is no axis", "an axis whose block is 1 is an i64 scalar, others are axes")
            return
        name = symbol_name(argument.type.extent)
        if name is None:
            return
        legal = IDENTIFIER.fullmatch(name) is not None
        demand(legal, f"the extent `{name}` is no identifier", "give the symbol another name")
        free = name not in self.declared
        demand(free, f"the extent `{name}` is declared already", "every block of a function has a symbol of its own")
        self.declared.add(name)
        self.sizes.add(name)

    def yields(self, op: Op, name: str, body: Block) -> None:
        expected = yielded_types(op, name)
        if expected is None:  # what the branches of an if yield, is what the if gives
            return
        last = body.terminator
        demand(last is not None or not expected, f"the body `{name}` does not end in tile.yield", "add one")
        given = [v.type for v in last.operands] if last is not None else []
        fits = len(given) == len(expected) and all(map(same_but_level, given, expected))
        if not fits:
            wanted, got = ", ".join(map(str, expected)) or "nothing", ", ".join(map(str, given)) or "nothing"
            raise IllegalError(f"the body `{name}` yields {got}, but {wanted} is expected", f"yield {wanted}")


def _known_to_be_typed(op: Op, signature: list[object]) -> frozenset[str] | None:
    """The sizes that an op speaks of, if it was found to be well typed once and nothing has changed that counts.

    What bodies yield and what functions give may change without the op.
    """
    if (
        op.typed is None
        or op.bodies
        or isinstance(op, (graph_ops.Serial, graph_ops.Call, graph_ops.Loop))
        or op.typed[0] != signature
    ):
        return None
    return op.typed[1]


def _slices(op: Op) -> list[Slice]:
    return [i for field in op.fields.values() if isinstance(field, tuple) for i in field if isinstance(i, Slice)]


def _symbols_in_op(op: Op) -> frozenset[str]:
    """The sizes that an op's slices, attributes and results speak of."""
    dims: list[Dim] = [dim for item in _slices(op) for dim in (item.start, item.stop)]
    for name, field in op.attribute_fields.items():
        if field.kind in ("dim", "shape"):
            dims += op.attributes[name] if field.kind == "shape" else (op.attributes[name],)
    return frozenset[str]().union(*map(symbols_of, dims), *(_symbols_in_type(value.type) for value in op.results))


def yielded_types(op: Op, name: str) -> Sequence[Type] | None:
    """What the body `name` of `op` has to yield, levels aside; None if the op takes its types from the yield."""
    if isinstance(op, tile_ops.If):
        return None
    if isinstance(op, tile_ops.While) and name == "condition":
        return (scalar(bool_),)
    if isinstance(op, (tile_ops.Range, tile_ops.For, tile_ops.While)):
        return [v.type for v in op.initial]
    if isinstance(op, (tile_ops.Reduce, tile_ops.Scan, gpu_ops.Reduce, gpu_ops.Scan)):
        return [scalar(v.dtype) for v in op.sources]
    return ()


def _is_scalar(value: Value) -> bool:
    return isinstance(value.type, TileType) and not value.type.shape


def _dims_in_type(type_: Type) -> tuple[Dim, ...]:
    return (type_.extent,) if isinstance(type_, AxisType) else type_.shape


@lru_cache(maxsize=4096)
def _symbols_in_type(type_: Type) -> frozenset[str]:
    return frozenset[str]().union(*map(symbols_of, _dims_in_type(type_)))
