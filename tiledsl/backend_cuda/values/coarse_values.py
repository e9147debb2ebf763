"""Which f32 values may be computed coarsely: those of which nothing is made but floats of 16 bits or fewer.

    row = x[m, :].to(tile.f32)                            # exact
    e = tile.exp(row - tile.max(row, ...))                # coarse: e is only summed and divided
    y[m, :] = (e / tile.sum(e, ...)).to(tile.bf16)        # coarse: the quotient is rounded at once

A coarse function is a few instructions and has a relative error of at most 2**-17 (`UNIT`); tanh for bf16 has 2**-11.
A unit in the last place of f16 is at least 2**-11 of a number, of bf16 2**-8. What lies between a coarse value and its
rounding must pass relative errors on, and not enlarge them:

- mul, div add the relative errors of their operands; neg, abs, minimum, maximum, where and moving elements pass on the
  larger one; sqrt and rsqrt halve it, tanh and erf do not enlarge it, nor does log(1 + y) where y is not negative;
- add, and a sum over an axis, pass on the larger one where nothing is negative; elsewhere two numbers that nearly
  cancel leave only their errors, so those values are not coarse, and neither are operands of sub;
- exp makes relative errors of absolute ones: exp(x * (1 + d)) = exp(x) * exp(x * d), which is off by x * d, so that its
  operand is not coarse; its result is, whatever the operand. So it is with sigmoid and the other functions, and with
  comparisons, integers, prints, stores as f32, running folds and products over an axis, and matrix products.

A sum of 1 and tanh or erf may be coarse too, and the logarithm of 1 and another number: there are functions for these
(`one_plus.py`).

What a loop carries may be coarse if the loop adds to it (or takes the larger), but a factor that multiplies it in every
round is not: its errors would pile up. Errors are added up along the way, and where more than a quarter of a unit
in the last place would come together before a rounding, what leads there is computed accurately.

So results differ from accurately computed ones by at most one unit of the 16-bit type in the last place, and by none
but where the exact result lies almost half way between two numbers. Zeros, infinities, NaN, large and subnormal
divisors are as in accurate division; results of exp and sigmoid below 2**-126 are 0, as in f32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

from tiledsl.backend_cuda.values.one_plus import ERRORS as ONE_PLUS_ERRORS
from tiledsl.backend_cuda.values.one_plus import log_of_one_plus, one_plus
from tiledsl.ir.core import Block, Op, Value
from tiledsl.ir.dtypes import DType, bf16, f16, f32, is_narrow_float
from tiledsl.ir.gpu.gpu_ops import Buffer, Convert, Pad, Read, Reduce, Slice, Write
from tiledsl.ir.tile_ops import Broadcast, Cast, Constant, For, If, Map, Reshape, Transpose, While, Yield
from tiledsl.ir.types import TileType

UNIT = 2.0**-17
"""The largest relative error of a coarse function but tanh."""

COARSE_FUNCTIONS = {"exp": 1, "div": 1, "sqrt": 1, "sigmoid": 1}
"""Functions that are cheaper where their results may be coarse; their errors in units."""

COARSE_FOR_BF16 = {**COARSE_FUNCTIONS, "tanh": 64}
"""Those where all roundings are to bf16 or to 8 bits."""

_LIMITS = {f16: 16, bf16: 128}
"""How many units may come together before a rounding: a quarter of a unit in the last place."""

_ROUNDS = 8

_MOVES = (Broadcast, Reshape, Transpose, Slice, Convert)
_PASSES_LARGEST = ("neg", "abs", "minimum", "maximum", "where", "sqrt", "rsqrt", "tanh", "erf")
_PASSES = ("mul", "div", "add", *_PASSES_LARGEST)


def coarse_values(body: Block) -> dict[Value, DType]:
    """The coarse values of a launch's body: for each the type, f16 or bf16, that its errors must not be seen in.

    Floats of 8 bits count as bf16.
    """
    ops = list(body.walk())
    nonnegative = _nonnegative(ops)
    found: dict[Value, DType] = {}
    for dtype, functions in ((f16, COARSE_FUNCTIONS), (bf16, COARSE_FOR_BF16)):
        found.update(dict.fromkeys(_Tolerance(ops, nonnegative, dtype, functions).coarse, dtype))
    return found


class _Tolerance:
    """The values whose errors do not matter to roundings to `dtype` and coarser types."""

    def __init__(self, ops: Sequence[Op], nonnegative: set[Value], dtype: DType, functions: dict[str, int]) -> None:
        self.ops = ops
        self.nonnegative = nonnegative
        self.functions = functions
        self.carried = _carried(ops)
        self.roundings = {op for op in ops if isinstance(op, Cast) and _rounds_to(op, dtype)}
        from_last = list(dict.fromkeys(_values(ops)))[::-1]
        while True:
            self.tolerated = _shrunk(from_last, self._tolerated_by_users)
            self.coarse = {v for v in self.tolerated - self.carried if v.users}
            errors = self._errors()
            too_much = {op for op in self.roundings if errors.get(op.operands[0], 0) > _LIMITS[dtype]}
            if not too_much:
                return
            self.roundings -= too_much

    def _tolerated_by_users(self, value: Value, tolerated: set[Value]) -> bool:
        return value.dtype == f32 and all(self._tolerates(user, value, tolerated) for user in value.users)

    def _tolerates(self, user: Op, value: Value, tolerated: set[Value]) -> bool:
        """Whether an op makes of an error in one of its operands no other error than one that is tolerated."""
        match user:
            case Cast():
                return user in self.roundings
            case Map():
                return self._passes_on(user, value) and user.result in tolerated
            case Pad():
                return user.result in tolerated
            case Reduce():
                alike = user.fn in ("max", "min") or (user.fn == "add" and value in self.nonnegative)
                return alike and user.results[0] in tolerated
            case Write():
                accesses = _accesses(user.buffer)
                return accesses is not None and all(o.result in tolerated for o in accesses if isinstance(o, Read))
            case For() | Yield():
                targets = _targets(user, value)
                return targets is not None and all(target in tolerated for target in targets)
            case _:
                return isinstance(user, _MOVES) and user.result in tolerated

    def _passes_on(self, op: Map, value: Value) -> bool:
        """Whether the relative error of the result is no more than those of the operands together."""
        if op.fn in ("mul", "div"):
            # what a loop multiplies its carried value by must be accurate
            return op.result not in self.carried or (
                value in self.carried and sum(operand in self.carried for operand in op.inputs) == 1
            )
        if op.fn == "add":
            return all(operand in self.nonnegative for operand in op.inputs)
        if op.fn == "log":
            return log_of_one_plus(op) in self.nonnegative and all(isinstance(u, Map) for u in value.users)
        return op.fn in _PASSES_LARGEST

    def _errors(self) -> dict[Value, int]:
        """The errors of values, in units. Each loop within another takes one round more until they are known.

        Those that grow with every round, as of a buffer that a loop multiplies, are beyond all limits.
        """
        errors: dict[Value, int] = {}
        for _ in range(_ROUNDS):
            before = dict(errors)
            self._add_errors(errors)
            if errors == before:
                return errors
        return dict.fromkeys(self.tolerated, max(_LIMITS.values()) + 1)

    def _add_errors(self, errors: dict[Value, int]) -> None:
        def largest(values: Sequence[Value]) -> int:
            return max((errors.get(v, 0) for v in values), default=0)

        for op in self.ops:
            if isinstance(op, For):
                for initial, argument, yielded, result in _carries(op):
                    errors[argument] = errors[result] = largest((initial, yielded))
                continue
            if isinstance(op, If):
                continue  # their results are those of their yields
            if isinstance(op, Yield) and op.parent is not None and isinstance(op.parent.parent, If):
                for value, result in zip(op.operands, op.parent.parent.results):
                    errors[result] = max(errors.get(result, 0), errors.get(value, 0))
            sources = op.operands
            if isinstance(op, Read):
                sources = [o.value for o in _accesses(op.buffer) or () if isinstance(o, Write)]
            for result in op.results:
                if result in self.tolerated:
                    together = isinstance(op, Map) and op.fn in ("mul", "div")
                    inherited = sum(errors.get(v, 0) for v in sources) if together else largest(sources)
                    errors[result] = inherited + self._own_error(op)

    def _own_error(self, op: Op) -> int:
        if not isinstance(op, Map) or op.result not in self.coarse:
            return 0
        function = one_plus(op)
        if log_of_one_plus(op) is not None:
            return 1
        return self.functions.get(op.fn, 0) if function is None else ONE_PLUS_ERRORS[function.fn]


def _rounds_to(op: Cast, dtype: DType) -> bool:
    return is_narrow_float(op.dtype) and (op.dtype != f16 or dtype == f16)


def _values(ops: Sequence[Op]) -> Iterator[Value]:
    """All scalars and tiles that ops give, and that loops carry."""
    for op in ops:
        carried = op.body.arguments[1:] if isinstance(op, For) else ()
        yield from (v for v in chain(op.results, carried) if isinstance(v.type, TileType))


def _shrunk(values: Iterable[Value], holds: Callable[[Value, set[Value]], bool]) -> set[Value]:
    """The largest set of those values in which `holds` is true of each, where it asks about others of the set.

    What it asks about should come before: then only what loops carry needs another round.
    """
    found = list(values)
    while True:
        kept = set(found)
        for value in found:
            if not holds(value, kept):
                kept.discard(value)
        if len(kept) == len(found):
            return kept
        found = [value for value in found if value in kept]


def _carries(op: For) -> Iterator[tuple[Value, Value, Value, Value]]:
    """For each value that a loop carries: its first value, the body's argument, what is yielded, and the result."""
    terminator = op.body.terminator
    assert terminator is not None
    return zip(op.initial, op.body.arguments[1:], terminator.operands, op.results)


def _targets(op: For | Yield, value: Value) -> list[Value] | None:
    """What a value becomes that enters a loop, or is yielded; None where that is not followed."""
    if isinstance(op, For):
        return [v for initial, *rest in _carries(op) if initial is value for v in (rest[0], rest[2])]
    owner = op.parent.parent if op.parent is not None else None
    match owner:
        case For():
            return [
                v for _, argument, yielded, result in _carries(owner) if yielded is value for v in (argument, result)
            ]
        case If():
            return [result for yielded, result in zip(op.operands, owner.results) if yielded is value]
        case _:
            return None


def _accesses(buffer: Value) -> list[Read | Write] | None:
    """The reads and writes of a buffer, if nothing else is done with it."""
    found = [user for user in buffer.users if isinstance(user, (Read, Write))]
    return found if isinstance(buffer.op, Buffer) and len(found) == len(buffer.users) else None


def _carried(ops: Sequence[Op]) -> set[Value]:
    """What goes around a loop: values that loops carry, and what is made of them by ops that pass errors on, where a
    loop yields it. What is only made of the results of a loop within another does not come back."""
    found: set[Value] = set()
    waiting: list[Value] = []
    yielded = _leads_to_yields(ops)

    def add(value: Value) -> None:
        if isinstance(value.type, TileType) and value.dtype == f32 and value in yielded and value not in found:
            found.add(value)
            waiting.append(value)

    for op in ops:
        if isinstance(op, For):
            for value in (*op.body.arguments[1:], *(op.results if _is_in_loop(op) else ())):
                add(value)
    while waiting:
        value = waiting.pop()
        for user in value.users:
            if isinstance(user, Write):
                for access in user.buffer.users:
                    if isinstance(access, Read):
                        add(access.result)
            elif isinstance(user, Yield) and user.parent is not None and isinstance(user.parent.parent, If):
                for result in user.parent.parent.results:
                    add(result)
            elif isinstance(user, (Pad, Reduce, *_MOVES)) or (isinstance(user, Map) and user.fn in _PASSES):
                for result in user.results:
                    add(result)
    return found


def _leads_to_yields(ops: Sequence[Op]) -> set[Value]:
    """All that something is made of which a loop yields, and what loops carry."""
    found: set[Value] = set()
    waiting = [value for op in ops if isinstance(op, For) for pair in _carries(op) for value in pair[1:3]]
    while waiting:
        value = waiting.pop()
        if value in found:
            continue
        found.add(value)
        op = value.op
        match op:
            case None:
                pass  # what a loop carries: where it comes from is found at the loop
            case For():
                initial, _, yielded, _ = list(_carries(op))[op.results.index(value)]
                waiting += [initial, yielded]
            case If():
                place = op.results.index(value)
                ends = [block.terminator for block in (op.then, op.otherwise)]
                waiting += [end.operands[place] for end in ends if end is not None]
            case Read():
                waiting += [access.value for access in _accesses(op.buffer) or () if isinstance(access, Write)]
            case _:
                waiting += op.operands
    return found


def _is_in_loop(op: Op) -> bool:
    block = op.parent
    while block is not None and block.parent is not None:
        if isinstance(block.parent, (For, While)):
            return True
        block = block.parent.parent
    return False


# Signs


def _nonnegative(ops: Sequence[Op]) -> set[Value]:
    """The values that are at least 0, or NaN, in every element but those of no defined value."""
    argument_of = {argument: (op, number) for op in ops if isinstance(op, For) for number, argument in _arguments(op)}

    def holds(value: Value, known: set[Value]) -> bool:
        op = value.op
        if op is None:
            loop, number = argument_of[value]
            initial, _, yielded, _ = list(_carries(loop))[number]
            return initial in known and yielded in known
        if isinstance(op, For):
            initial, _, yielded, _ = list(_carries(op))[op.results.index(value)]
            return initial in known and yielded in known
        return _gives_nonnegative(op, known)

    # constants may stand before the launch
    constants = (v for op in ops for v in op.operands if isinstance(v.op, Constant))
    return _shrunk(dict.fromkeys(chain(constants, _values(ops))), holds)


def _arguments(op: For) -> Iterator[tuple[int, Value]]:
    return enumerate(op.body.arguments[1:])


_NEVER_NEGATIVE = ("exp", "exp2", "sigmoid", "sqrt", "rsqrt", "abs")
_KEEPS_SIGN = ("add", "mul", "div", "minimum", "where", "floor", "ceil", "round", "tanh", "erf")


def _gives_nonnegative(op: Op, known: set[Value]) -> bool:
    match op:
        case Constant():
            return not isinstance(op.value, (bool, str)) and op.value >= 0
        case Map() if not op.result.dtype.is_float:
            return False  # integers may overflow
        case Map():
            if op.fn == "mul" and op.inputs[0] is op.inputs[1]:
                return True
            if op.fn == "maximum":
                return any(v in known for v in op.inputs)
            values = op.inputs[1:] if op.fn == "where" else op.inputs
            return op.fn in _NEVER_NEGATIVE or (op.fn in _KEEPS_SIGN and all(v in known for v in values))
        case Cast():
            return op.source.dtype.kind in ("uint", "bool") or op.source in known
        case Pad():
            return op.source in known and op.fill in known
        case Reduce():
            return op.fn in ("add", "mul", "max", "min") and op.sources[0] in known
        case _:
            return isinstance(op, _MOVES) and op.source in known
