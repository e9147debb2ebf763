"""Recurrent layers over sequences whose length is known: one layer in one direction.

`x` is [L, N, I] (length, batch, inputs), weights are PyTorch's: `w_ih` [G * H, I] and `w_hh` [G * H, H] with the rows
of G gates behind each other, and biases [G * H]. What the inputs give to all gates is one product before the loop.
States are [N, H], zeros unless they are given. `reverse`: from the last element to the first. `lengths` [N]: what is at
and beyond the length of a sequence leaves its state as it is, and gives zeros. In f32 for narrow floats; results have
the dtype of `x`. Raises TileShapeError if shapes do not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tiledsl import tile
from tiledsl.ops.checks import as_tensor, refuse_option, refuse_rank, refuse_shapes, require_float, widened

Step = Callable[[Any, tuple[Any, ...]], tuple[Any, ...]]
"""From what the inputs give to the gates, and states, to the next states: the first is the output."""


@tile.kernel
def rnn(
    x: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None, h0: Any = None, *, activation: Any = tile.tanh,
    reverse: bool = False, lengths: Any = None,
) -> Any:  # fmt: skip
    """h = activation(w_ih @ x + b_ih + w_hh @ h + b_hh). Gives (outputs [L, N, H], the last state [N, H])."""
    loop = _Loop("ops.rnn", 1, x, w_ih, w_hh, b_ih, b_hh)

    def step(given: Any, states: tuple[Any, ...]) -> tuple[Any, ...]:
        return (activation(given + loop.product(states[0])),)

    outputs, (h,) = loop.run(step, (h0,), reverse, lengths)
    return outputs, h


@tile.kernel
def lstm(
    x: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None, h0: Any = None, c0: Any = None, *,
    peepholes: Any = None, activations: Any = (tile.sigmoid, tile.tanh, tile.tanh), clip: Any = None,
    reverse: bool = False, lengths: Any = None,
) -> Any:  # fmt: skip
    """c = f * c + i * g and h = o * tanh(c), with sigmoids i, f, o and a tanh g of the gates, in the order i, f, g, o.

    Gives (outputs [L, N, H], the last h [N, H], the last c [N, H]). `activations`: what stands for the sigmoid, for the
    tanh of g and for that of c. `peepholes` [3, H]: what c gives to i, f (the old one) and o (the new one). `clip`:
    gates are limited to [-clip, clip].
    """
    name = "ops.lstm"
    loop = _Loop(name, 4, x, w_ih, w_hh, b_ih, b_hh)
    share, inner, outer = activations
    weights: Any = None
    if peepholes is not None:
        given = as_tensor(peepholes)
        if given.shape != (3, loop.width):
            refuse_shapes(name, given, loop.weight, "there are three peepholes for each element", "give [3, H]")
        weights = [widened(given[i]) for i in range(3)]

    def limited(gate: Any) -> Any:
        return gate if clip is None else tile.clip(gate, -clip, clip)

    def step(given: Any, states: tuple[Any, ...]) -> tuple[Any, ...]:
        h, c = states
        i, f, g, o = loop.gates(given + loop.product(h))
        if weights is not None:
            i, f = i + weights[0] * c, f + weights[1] * c
        c = share(limited(f)) * c + share(limited(i)) * inner(limited(g))
        if weights is not None:
            o = o + weights[2] * c
        return share(limited(o)) * outer(c), c

    outputs, (h, c) = loop.run(step, (h0, c0), reverse, lengths)
    return outputs, h, c


@tile.kernel
def gru(
    x: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None, h0: Any = None, *, reset_after: bool = True,
    activations: Any = (tile.sigmoid, tile.tanh), reverse: bool = False, lengths: Any = None,
) -> Any:  # fmt: skip
    """h = (1 - z) * n + z * h, with sigmoids r, z and n = tanh(n_x + r * n_h) of the gates, in that order: r, z, n.

    Gives (outputs [L, N, H], the last state [N, H]). Without `reset_after` n is tanh(n_x + w_n @ (r * h) + b_n), as in
    ONNX unless `linear_before_reset`. `activations`: what stands for the sigmoid and for the tanh.
    """
    loop = _Loop("ops.gru", 3, x, w_ih, w_hh, None, None)
    share, inner = activations
    biases = [loop.bias(value) for value in (b_ih, b_hh)]
    loop.given = loop.given + biases[0]
    width = loop.width
    first = loop.weight[: 2 * width]
    last, last_bias = loop.weight[2 * width :], biases[1][2 * width :] if b_hh is not None else 0.0

    def step(given: Any, states: tuple[Any, ...]) -> tuple[Any, ...]:
        h = states[0]
        if reset_after:
            hidden = loop.gates(loop.product(h) + biases[1])
            of_x = loop.gates(given)
            r, z = share(of_x[0] + hidden[0]), share(of_x[1] + hidden[1])
            n = inner(of_x[2] + r * hidden[2])
        else:
            early = loop.product(h, first) + (biases[1][: 2 * width] if b_hh is not None else 0.0)
            r, z = share(given[:, :width] + early[:, :width]), share(given[:, width : 2 * width] + early[:, width:])
            n = inner(given[:, 2 * width :] + loop.product(r * h, last) + last_bias)
        return ((1.0 - z) * n + z * h,)

    outputs, (h,) = loop.run(step, (h0,), reverse, lengths)
    return outputs, h


class _Loop:
    """What a layer multiplies, and its steps one after the other."""

    def __init__(self, name: str, gates: int, x: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> None:
        x, w_ih, w_hh = as_tensor(x), as_tensor(w_ih), as_tensor(w_hh)
        self.name, self.x, self.weight, self.count = name, x, w_hh, gates
        require_float(name, x)
        if x.ndim != 3:
            refuse_rank(name, x, "[L, N, I]", "give an axis of lengths, one of the batch and one of inputs")
        if not isinstance(x.shape[0], int) or x.shape[0] < 1:
            refuse_option(name, "x", x.shape[0], "a known length of at least 1", "give the length as a number")
        fits = w_hh.ndim == 2 and w_hh.shape[0] == gates * w_hh.shape[1]
        if not fits:
            refuse_rank(name, w_hh, f"[{gates} * H, H]", f"put the rows of {gates} gates behind each other")
        if w_ih.shape != (w_hh.shape[0], x.shape[2]):
            refuse_shapes(name, w_ih, x, "a row of weights has a number for each input", "give [gates * H, I]")
        self.width: Any = w_hh.shape[1]
        self.given: Any = tile.dot(x, w_ih.mT)
        for bias in (b_ih, b_hh):
            if bias is not None:
                self.given = self.given + self.bias(bias)

    def bias(self, value: Any) -> Any:
        """A bias as it is added to gates; zero for None. Raises TileShapeError."""
        if value is None:
            return 0.0
        given = as_tensor(value)
        if given.shape != self.weight.shape[:1]:
            refuse_shapes(
                self.name, given, self.weight, "there is one bias for each row of weights", "give [gates * H]"
            )
        return widened(given)

    def product(self, h: Any, weight: Any = None) -> Any:
        """What a state gives to the gates, in the dtype of the sums."""
        weight = self.weight if weight is None else weight
        return tile.dot(h.to(weight.dtype), weight.mT)

    def gates(self, values: Any) -> tuple[Any, ...]:
        """The gates [N, H] of [N, gates * H]."""
        return tuple(values[:, i * self.width : (i + 1) * self.width] for i in range(self.count))

    def run(self, step: Step, initial: Sequence[Any], reverse: bool, lengths: Any) -> tuple[Any, tuple[Any, ...]]:
        """All outputs [L, N, H], and the last states."""
        length, batch = self.x.shape[:2]
        states = tuple(self._state(value, batch) for value in initial)
        ends = None if lengths is None else as_tensor(lengths)
        if ends is not None and ends.shape != (batch,):
            refuse_shapes(self.name, ends, self.x, "there is one length for each sequence of the batch", "give [N]")
        outputs: list[Any] = [None] * length
        for t in reversed(range(length)) if reverse else range(length):
            following = step(self.given[t], states)
            output = following[0]
            if ends is not None:
                going = (ends > t)[:, None]
                output = tile.where(going, output, 0.0)
                following = tuple(tile.where(going, new, old) for new, old in zip(following, states))
            outputs[t] = output.to(self.x.dtype)
            states = following
        return tile.stack(outputs), tuple(state.to(self.x.dtype) for state in states)

    def _state(self, value: Any, batch: Any) -> Any:
        if value is None:
            return tile.zeros((batch, self.width), self.given.dtype)
        given = as_tensor(value)
        if given.shape != (batch, self.width):
            refuse_shapes(self.name, given, self.x, f"a state is [N, {self.width}]", "give it that shape")
        return given.to(self.given.dtype)
