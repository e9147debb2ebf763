"""What operators are told of the node that they stand for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn, Protocol, cast

from onnx import TensorProto, helper

from tiledsl.importers.onnx.model import Array, GraphBody, Node
from tiledsl.importers.onnx.session import NotOneStepError, Session
from tiledsl.importers.onnx.values import Item, Scope, Value, tensors_of
from tiledsl.ops.loops import scan
from tiledsl.support.errors import TileError, fail

Step = Callable[[list[Any], list[Any]], tuple[Sequence[Any], Sequence[Any]]]
"""From what is carried, and elements of sequences, to what is carried on, and what is stacked: all of them values."""


class Looped(NamedTuple):
    """What a loop gives."""

    carried: list[Any]
    stacked: list[Any]


class Walker(Protocol):
    """What runs graphs: the walk."""

    session: Session

    def run_body(self, body: GraphBody, inputs: Sequence[Any], outer: Scope) -> list[Any]:
        """The outputs of a graph."""
        ...

    def wrap(self, result: Any, name: str) -> Item:
        """What a formula gives as a value of the walk."""
        ...


class Call:
    """A node that is run now."""

    def __init__(self, walk: Walker, node: Node, scope: Scope) -> None:
        self.node = node
        self._walk = walk
        self._scope = scope

    @property
    def version(self) -> int:
        """The opset."""
        return self.node.version

    @property
    def outputs(self) -> int:
        """How many outputs the node names."""
        return len(self.node.outputs)

    def wants(self, output: int) -> bool:
        """Whether an output has a name."""
        return output < len(self.node.outputs) and bool(self.node.outputs[output])

    def refuse(self, attribute: str, value: object, expected: str) -> NoReturn:
        """Raises TileUnsupportedError: an attribute, or an input, is not what is supported."""
        text = repr(value)
        fail(
            "onnx-attribute", self.node.location,
            node=self.node.title, attribute=attribute, value=text, expected=expected,
        )  # fmt: skip

    def invalid(self, problem: str) -> NoReturn:
        """Raises TileShapeError: the node's inputs do not fit each other."""
        fail("onnx-node", self.node.location, node=self.node.title, problem=problem)

    # For operators that work with values of the walk

    def read(self, value: Value, what: str) -> Array:
        """The elements of a value, on which `what` depends."""
        return self._walk.session.read(value, self.node, what)

    def shape(self, value: Value) -> tuple[Any, ...]:
        return self._walk.session.shape(value)

    def dtype(self, value: Value) -> Any:
        return self._walk.session.dtype(value)

    def known(self, array: Array) -> Value:
        """A value that is the same whatever the inputs are."""
        return Value("", array=array)

    def numpy_dtype(self, kind: str) -> Any:
        """NumPy's dtype of an element type as models write it (`FLOAT`)."""
        dtypes: Any = helper.tensor_dtype_to_np_dtype
        return dtypes(TensorProto.DataType.Value(kind or "FLOAT"))

    def formula(self, fn: Callable[..., Any], *items: Any, **options: Any) -> Any:
        """Records a formula of values: tensors, and lists of them."""
        session = self._walk.session
        given = [self._tensors(item) for item in items]
        result = session.recording.run(self.node.location, fn, *given, **options)
        name = self.node.outputs[0] if self.node.outputs else ""
        if isinstance(result, (tuple, list)):
            return [self._walk.wrap(part, name) for part in cast("Sequence[Any]", result)]
        return self._walk.wrap(result, name)

    def _tensors(self, item: Any) -> Any:
        if isinstance(item, Value):
            return self._walk.session.tensor(item, self.node)
        return [self._tensors(part) for part in cast("list[Any]", item)] if isinstance(item, list) else item

    def loop(self, step: Step, carry: Sequence[Any], xs: Sequence[Any], length: int, *, reverse: bool) -> Looped | None:
        """A loop of the graph whose steps are `step`, which runs graphs of the node on values: what is carried at the
        end, and what is stacked. None where no one step stands for all, so that they have to be run one by one."""
        session = self._walk.session
        if session.in_step or not all(isinstance(item, Value) for item in (*carry, *xs)):
            return None

        def one(state: Any, parts: Any) -> Any:
            given = [[self._walk.wrap(t, "") for t in tensors or ()] for tensors in (state, parts)]
            results = step(*given)
            if not all(isinstance(item, Value) for part in results for item in part):
                raise NotOneStepError
            after, ys = ([session.tensor(value, self.node) for value in part] for part in results)
            return tuple(after), ys

        session.in_step = True
        try:
            given = [tuple(session.tensor(value, self.node) for value in items) for items in (carry, xs)]
            ends, stacked = session.recording.run(
                self.node.location, scan, one, given[0], given[1] or None, length=length, reverse=reverse
            )
        except (NotOneStepError, TileError):  # an error of the model will be met again
            return None
        finally:
            session.in_step = False
        return Looped(*([self._walk.wrap(t, "") for t in part] for part in (ends, stacked)))

    def keep(self, name: str, item: Any) -> None:
        """Keeps values that the operator will need, whatever happens between."""
        self._scope[f" {id(self)} {name}"] = item

    def body(self, graph: GraphBody, inputs: Sequence[Any]) -> list[Any]:
        """The outputs of a graph of the node."""
        return self._walk.run_body(graph, inputs, self._scope)

    def host(self, run: Callable[..., Sequence[Any]], items: Sequence[Item], count: int) -> list[Value]:
        """Runs a function of arrays on the host."""
        return self._walk.session.host(self.node, run, list(tensors_of(list(items))), count)
