"""The one IR: values, ops, blocks, functions, modules.

An op class declares its operands, attributes and bodies as fields; everything generic (printing, parsing, cloning,
verifying, use lists) works from those declarations, and reading a field is typed:

    class Reduce(Op):
        name = "tile.reduce"
        source = operand()
        axes = ints_attribute()

        def infer_types(self) -> tuple[Type, ...]: ...

    Reduce(location, source=x, axes=(1,)).source.type

Control flow is structured, so every body is a single block: `Block` is both block and region.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, Union, cast

from tiledsl.ir.dtypes import DType
from tiledsl.ir.op_fields import (
    AnyOperandField,
    AttributeField,
    BodyField,
    IndicesField,
    OperandField,
    OptionalField,
    VariadicField,
)
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.types import Shape, Slice, TileType, Type, Whole
from tiledsl.support.location import Location

if TYPE_CHECKING:
    from tiledsl.ir.layouts.layout import RegisterLayout

Effect = Literal["pure", "read", "write", "control", "terminator"]
"""What an op does besides its results: `read` and `write` speak of global memory (a print is a write);
`control` ops do what their bodies do."""


class Value:
    """The result of an op, an argument of a block, or a parameter. Equality is identity.

    `name` is a hint for the printer; `users` counts the operand slots of each op that read this value.
    """

    __slots__ = ("name", "owner", "type", "users")

    def __init__(self, type_: Type, name: str = "", owner: Op | Block | None = None) -> None:
        self.type: Type = type_
        self.name = name
        self.owner = owner
        self.users: dict[Op, int] = {}

    @property
    def op(self) -> Op | None:
        """The op whose result this is, or None for a block argument."""
        return self.owner if isinstance(self.owner, Op) else None

    @property
    def op_around(self) -> Op | None:
        """The op whose body is given this value: a grid its axes, a loop what it carries; None for what an op makes,
        and for a parameter of a function."""
        return self.owner.parent if isinstance(self.owner, Block) else None

    @property
    def tile(self) -> TileType:
        """The type, which must be that of a tile or a scalar."""
        assert isinstance(self.type, TileType), f"%{self.name} is no tile but {self.type}"
        return self.type

    @property
    def shape(self) -> Shape:
        return self.tile.shape

    @property
    def dtype(self) -> DType:
        return self.tile.dtype

    @property
    def layout(self) -> RegisterLayout:
        """The layout of a tile in registers, which it must have (in GPU form every one has)."""
        type_ = self.tile
        fits = type_.level == "register" and type_.layout is not None
        assert fits, f"%{self.name} has no register layout but is {self.type}"
        return cast("RegisterLayout", type_.layout)

    def replace_with(self, other: Value) -> None:
        """Makes every user read `other` instead."""
        for user in list(self.users):
            user.replace_operand(self, other)

    def __repr__(self) -> str:
        return f"%{self.name}: {self.type}"


Index: TypeAlias = Union[Value, Slice, Whole]
"""One subscript of a tensor: an axis block, a scalar or an int tile (all Values), a slice, or `:`."""
FieldValue: TypeAlias = "Value | tuple[Value, ...] | tuple[Index, ...] | None"


Number: TypeAlias = Union[int, float, bool]


class InvalidIRError(Exception):
    """What is wrong with an op, found while inferring its types; the verifier and the parser add the place."""


class Op:
    """An operation: fields read by name, results, a location. Equality is identity."""

    name: ClassVar[str]
    effect: ClassVar[Effect] = "pure"
    operand_fields: ClassVar[dict[str, AnyOperandField]] = {}
    attribute_fields: ClassVar[dict[str, AttributeField[Any]]] = {}
    body_fields: ClassVar[dict[str, BodyField]] = {}

    def __init_subclass__(cls) -> None:
        declared = [(n, f) for base in reversed(cls.__mro__) for n, f in vars(base).items()]
        operand_kinds = (OperandField, OptionalField, VariadicField, IndicesField)
        cls.operand_fields = {n: f for n, f in declared if isinstance(f, operand_kinds)}
        cls.attribute_fields = {n: f for n, f in declared if isinstance(f, AttributeField)}
        cls.body_fields = {n: f for n, f in declared if isinstance(f, BodyField)}
        if "name" in vars(cls):
            assert cls.name not in OPS, f"op {cls.name} is declared twice"
            OPS[cls.name] = cls

    def __init__(
        self,
        location: Location,
        *,
        types: Sequence[Type] | None = None,
        result_names: Sequence[str] = (),
        **fields: Any,
    ) -> None:
        """Builds the op from its fields by name. The result types are inferred unless given. Raises InvalidIRError."""
        self.location = location
        self.parent: Block | None = None
        self.place = 0
        """Near where in its block the op stands: a hint for `Block.index`, which is never wrong by it."""
        self.typed: tuple[list[object], frozenset[str]] | None = None
        """What the verifier last found to be well typed: attributes, the types of operands and results, and the sizes
        that they speak of. An op of which all this is still so need not be checked again.
        """
        self.fields: dict[str, FieldValue] = {}
        self.attributes: dict[str, Any] = {}
        self.bodies: dict[str, Block] = {}
        for name, field in self.operand_fields.items():
            self._set_field(name, field, fields.pop(name, None))
        for name, attribute in self.attribute_fields.items():
            value = fields.pop(name, None)
            assert value is not None or attribute.optional, f"{self.name} needs {name}"
            self.attributes[name] = attribute.default if value is None else value
        for name, body_field in self.body_fields.items():
            block: Block | None = fields.pop(name, None)
            assert block is not None or body_field.optional, f"{self.name} needs {name}"
            if block is not None:
                self.bodies[name] = block
                block.parent = self
        assert not fields, f"{self.name} has no field {next(iter(fields))}"
        types = self.infer_types() if types is None else types
        names = [*result_names, *[""] * (len(types) - len(result_names))]
        self.results: tuple[Value, ...] = tuple([Value(t, n, self) for t, n in zip(types, names)])

    def _set_field(self, name: str, field: AnyOperandField, value: Any) -> None:
        if isinstance(field, (VariadicField, IndicesField)):
            value = tuple(value or ())
        assert value is not None or isinstance(field, OptionalField), f"{self.name} needs {name}"
        self.fields[name] = value
        for used in _values_in(value):
            used.users[self] = used.users.get(self, 0) + 1

    def infer_types(self) -> tuple[Type, ...]:
        """The result types (levels unset) that the fields imply. Raises InvalidIRError if the fields do not fit."""
        raise NotImplementedError(self.name)

    @property
    def result(self) -> Value:
        """The only result."""
        (value,) = self.results
        return value

    @property
    def operands(self) -> tuple[Value, ...]:
        """Every value read, in the order of the declared fields."""
        found: list[Value] = []
        for field in self.fields.values():
            if isinstance(field, tuple):
                found += [v for v in field if isinstance(v, Value)]
            elif field is not None:
                found.append(field)
        return tuple(found)

    def has_body(self, name: str) -> bool:
        return name in self.bodies

    def replace_operand(self, old: Value, new: Value) -> None:
        """Reads `new` wherever this op read `old`."""
        if old is new or self not in old.users:
            return
        count = old.users.pop(self)
        new.users[self] = new.users.get(self, 0) + count
        for name, field in self.fields.items():
            if field is old:
                self.fields[name] = new
            elif isinstance(field, tuple):
                self.fields[name] = tuple(new if v is old else v for v in field)

    def set_field(self, name: str, value: Any) -> None:
        """Replaces one declared operand field, keeping use lists right."""
        for used in _values_in(self.fields[name]):
            used.users[self] -= 1
            if used.users[self] == 0:
                del used.users[self]
        self._set_field(name, self.operand_fields[name], value)

    def erase(self) -> None:
        """Takes the op out of its block and out of all use lists. Its results must have no users."""
        for value in self.results:
            assert not value.users, f"%{value.name} of {self.name} is still used"
        if self.parent is not None:
            del self.parent.ops[self.parent.index(self)]
            self.parent = None
        for block in self.bodies.values():
            for op in reversed(list(block.ops)):
                op.erase()
        for used in self.operands:
            used.users.pop(self, None)

    def walk(self) -> Iterator[Op]:
        """This op, then every op nested in it, in order."""
        yield self
        if self.bodies:
            yield from _walk(_ops_in(self.bodies))

    def clone(self, values: dict[Value, Value]) -> Op:
        """A copy whose operands are mapped through `values`, which learns the copies of its results."""
        copy = object.__new__(type(self))  # what was checked when this op was made need not be checked again
        copy.location, copy.parent, copy.place, copy.typed = self.location, None, 0, self.typed
        copy.fields, copy.attributes, copy.bodies = {}, dict(self.attributes), {}
        for name, field in self.fields.items():
            if isinstance(field, tuple):
                mapped = tuple([values.get(v, v) if isinstance(v, Value) else v for v in field])
            else:
                mapped = None if field is None else values.get(field, field)
            copy.fields[name] = mapped
            for used in _values_in(mapped):
                used.users[copy] = used.users.get(copy, 0) + 1
        for name, block in self.bodies.items():
            copy.bodies[name] = block.clone(values)
            copy.bodies[name].parent = copy
        copy.results = tuple([Value(v.type, v.name, copy) for v in self.results])
        values.update(zip(self.results, copy.results))
        return copy

    def __repr__(self) -> str:
        return f"<{self.name} at {self.location}>"


OPS: dict[str, type[Op]] = {}
"""Every declared op class by its text name; filled as the vocabularies (`tile_ops`, `graph_ops`) are imported."""


def _values_in(field: FieldValue) -> tuple[Value, ...]:
    if isinstance(field, tuple):
        return tuple([v for v in field if isinstance(v, Value)])
    return () if field is None else (field,)


class Block:
    """A straight run of ops with arguments: a function's or an op's body. `parent` is the op that it is a body of."""

    def __init__(self, arguments: Sequence[tuple[Type, str]] = ()) -> None:
        self.arguments: list[Value] = [Value(t, n, self) for t, n in arguments]
        self.ops: list[Op] = []
        self.parent: Op | None = None
        self._shift = 0

    def add_argument(self, type_: Type, name: str = "") -> Value:
        value = Value(type_, name, self)
        self.arguments.append(value)
        return value

    def append(self, op: Op) -> None:
        op.parent = self
        op.place = len(self.ops)
        self.ops.append(op)

    def insert_before(self, anchor: Op, op: Op) -> None:
        """Puts `op` just before `anchor`, which is in this block."""
        op.parent = self
        op.place = self.index(anchor)
        self.ops.insert(op.place, op)

    def index(self, op: Op) -> int:
        """Where `op` stands in this block, in which it must be.

        It is looked for around where it was last, moved by as much as the op before it was: passes that go through a
        block and change it find each op after a step or two, where a search from the front would take the square.
        """
        last = len(self.ops)
        near = min(max(op.place + self._shift, 0), last)
        reach = 8
        while True:
            low, high = max(near - reach, 0), near + reach
            try:
                found = self.ops.index(op, low, high)
            except ValueError:
                if low == 0 and high >= last:
                    raise
                reach *= 8
                continue
            self._shift = found - op.place
            return found

    @property
    def terminator(self) -> Op | None:
        """The closing yield or return, if there is one."""
        return self.ops[-1] if self.ops and self.ops[-1].effect == "terminator" else None

    def walk(self) -> Iterator[Op]:
        """Every op in this block and below, in order. The block may be changed while walking."""
        return _walk(iter(self.ops[:]))

    def clone(self, values: dict[Value, Value]) -> Block:
        copy = Block([(a.type, a.name) for a in self.arguments])
        values.update(zip(self.arguments, copy.arguments))
        for op in self.ops:
            copy.append(op.clone(values))
        return copy


def _walk(ops: Iterator[Op]) -> Iterator[Op]:
    """These ops and all below them, in order: in one generator, since passes walk deep modules again and again."""
    around = [ops]
    while around:
        for op in around[-1]:
            yield op
            if op.bodies:
                around.append(_ops_in(op.bodies))
                break
        else:
            around.pop()


def _ops_in(bodies: Mapping[str, Block]) -> Iterator[Op]:
    """The ops of all bodies; those of each as it is when the walk comes to it."""
    for block in bodies.values():
        yield from block.ops[:]


@dataclass(frozen=True)
class Fact:
    """A promise about sizes that the caller checks: `dim % divisor == 0`."""

    dim: Dim
    divisor: int

    def __str__(self) -> str:
        text = str(self.dim)
        return f"{text if text.isidentifier() else f'({text})'} % {self.divisor} == 0"


@dataclass(frozen=True)
class SizeOrigin:
    """Where the program says how long an axis of a parameter is; for the error at a call that disagrees.

    `block`: the name of the block of an axis that subscripts it there, if that is how it says so.
    """

    parameter: str
    axis: int
    size: Dim
    location: Location
    block: str = ""


class Function:
    """A function: parameters are the arguments of its body. Dims that share a symbol are equal, checked at the call.

    `size_origins` says for error messages where the sizes of parameters come from; it has no other meaning and no text.
    """

    def __init__(
        self,
        name: str,
        body: Block,
        facts: Sequence[Fact],
        location: Location,
        size_origins: Sequence[SizeOrigin] = (),
    ) -> None:
        self.name = name
        self.body = body
        self.facts = tuple(facts)
        self.location = location
        self.size_origins = tuple(size_origins)

    @property
    def parameters(self) -> list[Value]:
        return self.body.arguments

    def walk(self) -> Iterator[Op]:
        return self.body.walk()

    def clone(self) -> Function:
        return Function(self.name, self.body.clone({}), self.facts, self.location, self.size_origins)


class Module:
    """A list of functions; the first is the entry."""

    def __init__(self, functions: Sequence[Function]) -> None:
        self.functions = list(functions)

    @property
    def entry(self) -> Function:
        return self.functions[0]

    def function(self, name: str) -> Function:
        """The function of that name (KeyError if there is none)."""
        for function in self.functions:
            if function.name == name:
                return function
        raise KeyError(name)

    def walk(self) -> Iterator[Op]:
        for function in self.functions:
            yield from function.walk()

    def clone(self) -> Module:
        return Module([f.clone() for f in self.functions])

    def __eq__(self, other: object) -> bool:
        """Whether the other module is the same but for value names. Hashing stays by identity: modules change."""
        return isinstance(other, Module) and self.structure() == other.structure()

    __hash__ = object.__hash__

    def structure(self, *, locations: bool = True) -> tuple[object, ...]:
        """The module as nested tuples of plain data, in which values are numbered in the order of definition."""
        return tuple(
            (f.name, f.facts, f.location if locations else None, _block_structure(f.body, {}, locations))
            for f in self.functions
        )


def _block_structure(block: Block, numbers: dict[Value, int], locations: bool) -> tuple[object, ...]:
    for argument in block.arguments:
        numbers[argument] = len(numbers)
    types = tuple(a.type for a in block.arguments)
    return (types, *(op_structure(op, numbers, locations) for op in block.ops))


def op_structure(op: Op, numbers: dict[Value, int], locations: bool = False) -> tuple[object, ...]:
    """An op as nested tuples of plain data. `numbers` are those of values: it learns those of the op's results."""
    operands: list[object] = []
    for field in op.fields.values():
        # a value from elsewhere, in IR that is not legal, has no number
        items = field if isinstance(field, tuple) else (field,)
        operands.append(tuple(numbers.get(v, -1) if isinstance(v, Value) else v for v in items))
    # a number is told by its text: 1, 1.0 and True differ, so do 0.0 and -0.0, and NaN is itself
    attributes = [
        repr(op.attributes[name]) if field.kind == "number" else op.attributes[name]
        for name, field in op.attribute_fields.items()
    ]
    bodies = [(name, _block_structure(body, numbers, locations)) for name, body in op.bodies.items()]
    for result in op.results:
        numbers[result] = len(numbers)
    types = tuple(v.type for v in op.results)
    location = op.location if locations else None
    return (op.name, tuple(operands), tuple(attributes), tuple(bodies), types, location)


def free_names(taken: Mapping[str, object] | set[str], wanted: str) -> str:
    """`wanted`, or `wanted_1`, `wanted_2` ... whichever is the first that is not taken."""
    name, count = wanted, 0
    while name in taken:
        count += 1
        name = f"{wanted}_{count}"
    return name
