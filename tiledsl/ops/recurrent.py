"""Recurrent layers: one layer in one direction, as a loop over the elements of a sequence.

`x` is [L, N, I] (length, batch, inputs), weights are PyTorch's: `w_ih` [G * H, I] and `w_hh` [G * H, H] with the rows
of G gates behind each other, and biases [G * H]. `order` says which gate comes when, a letter for each. What the inputs
give to all gates is one product before the loop. `clip`: what an activation of a gate is given is limited to
[-clip, clip]. States are [N, H], zeros unless they are given. `reverse`: from the last element to the first. `lengths`
[N]: what is at and beyond the length of a sequence leaves its state as it is, and gives zeros. In f32 for narrow
floats; results have the dtype of `x`. Raises TileShapeError if shapes do not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tiledsl import tile
from tiledsl.ops.checks import as_tensor, refuse_option, refuse_rank, refuse_shapes, require_float, widened
from tiledsl.ops.loops import scan

Step = Callable[[Any, tuple[Any, ...]], tuple[Any, ...]]
"""From what the inputs give to the gates, and states, to the next states: the first is the output."""


@tile.kernel
def rnn(
    x: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None, h0: Any = None, *, activation: Any = tile.tanh,
    clip: Any = None, reverse: bool = False, lengths: Any = None,
) -> Any:  # fmt: skip
    """h = activation(w_ih @ x + b_ih + w_hh @ h + b_hh). Gives (outputs [L, N, H], the last state [N, H])."""
    loop = _Loop("ops.rnn", "h", "h", x, w_ih, w_hh, b_ih, b_hh)

    def step(given: Any, states: tuple[Any, ...]) -> tuple[Any, ...]:
        return (activation(_limited(given + loop.product(states[0]), clip)),)

    outputs, (h,) = loop.run(step, (h0,), reverse, lengths)
    return outputs, h


@tile.kernel
def lstm(
    x: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None, h0: Any = None, c0: Any = None, *,
    peepholes: Any = None, activations: Any = (tile.sigmoid, tile.tanh, tile.tanh), clip: Any = None,
    coupled: bool = False, order: str = "ifgo", reverse: bool = False, lengths: Any = None,
) -> Any:  # fmt: skip
    """c = f * c + i * g and h = o * tanh(c), with sigmoids i, f, o and a tanh g of the gates.

    Gives (outputs [L, N, H], the last h [N, H], the last c [N, H]). `activations`: what stands for the sigmoid, for the
    tanh of g and for that of c. `peepholes` [3, H]: what c gives to i, f (the old one) and o (the new one), in the
    order of the gates. `coupled`: f is 1 - i, whatever its gate.
    """
    name = "ops.lstm"
    loop = _Loop(name, "ifgo", order, x, w_ih, w_hh, b_ih, b_hh)
    share, inner, outer = activations
    holes: Any = None
    if peepholes is not None:
        given = as_tensor(peepholes)
        if given.shape != (3, loop.width):
            refuse_shapes(name, given, loop.weight, "there are three peepholes for each element", "give [3, H]")
        holes = {gate: widened(given[at]) for at, gate in enumerate(order.replace("g", ""))}

    def step(given: Any, states: tuple[Any, ...]) -> tuple[Any, ...]:
        h, c = states
        i, f, g, o = loop.gates(given + loop.product(h))
        if holes is not None:
            i, f = i + holes["i"] * c, f + holes["f"] * c
        i = share(_limited(i, clip))
        f = 1.0 - i if coupled else share(_limited(f, clip))
        c = f * c + i * inner(_limited(g, clip))
        if holes is not None:
            o = o + holes["o"] * c
        return share(_limited(o, clip)) * outer(c), c

    outputs, (h, c) = loop.run(step, (h0, c0), reverse, lengths)
    return outputs, h, c


@tile.kernel
def gru(
    x: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None, h0: Any = None, *, reset_after: bool = True,
    activations: Any = (tile.sigmoid, tile.tanh), clip: Any = None, order: str = "rzn", reverse: bool = False,
    lengths: Any = None,
) -> Any:  # fmt: skip
    """h = (1 - z) * n + z * h, with sigmoids r, z and n = tanh(n_x + r * n_h) of the gates.

    Gives (outputs [L, N, H], the last state [N, H]). Without `reset_after` n is tanh(n_x + w_n @ (r * h) + b_n), as in
    ONNX unless `linear_before_reset`; then n comes last in `order`. `activations`: what stands for the sigmoid and for
    the tanh.
    """
    name = "ops.gru"
    loop = _Loop(name, "rzn", order, x, w_ih, w_hh, None, None)
    share, inner = activations
    biases = [loop.bias(value) for value in (b_ih, b_hh)]
    loop.given = loop.given + biases[0]
    both = 2 * loop.width
    if not reset_after and order[2] != "n":
        refuse_option(name, "order", order, "one with n last, without `reset_after`", 'use "rzn"')
    first, last = loop.weight[:both], loop.weight[both:]
    first_bias, last_bias = (0.0, 0.0) if b_hh is None else (biases[1][:both], biases[1][both:])

    def step(given: Any, states: tuple[Any, ...]) -> tuple[Any, ...]:
        h = states[0]
        if reset_after:
            (rx, zx, nx), (rh, zh, nh) = loop.gates(given), loop.gates(loop.product(h) + biases[1])
            r, z = share(_limited(rx + rh, clip)), share(_limited(zx + zh, clip))
            n = nx + r * nh
        else:
            early = share(_limited(given[:, :both] + (loop.product(h, first) + first_bias), clip))
            parts = early[:, : loop.width], early[:, loop.width :]
            r, z = parts if order == "rzn" else parts[::-1]
            n = given[:, both:] + loop.product(r * h, last) + last_bias
        return ((1.0 - z) * inner(_limited(n, clip)) + z * h,)

    outputs, (h,) = loop.run(step, (h0,), reverse, lengths)
    return outputs, h


def _limited(gate: Any, clip: Any) -> Any:
    return gate if clip is None else tile.clip(gate, -clip, clip)


class _Loop:
    """What a layer multiplies, and its steps one after the other."""

    def __init__(self, name: str, letters: str, order: Any, x: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> None:
        x, w_ih, w_hh = as_tensor(x), as_tensor(w_ih), as_tensor(w_hh)
        self.name, self.x, self.weight = name, x, w_hh
        if not isinstance(order, str) or sorted(order) != sorted(letters):
            refuse_option(name, "order", order, f'the letters of "{letters}" in some order', f'use "{letters}"')
        self.places = [order.index(letter) for letter in letters]
        gates = len(letters)
        require_float(name, x)
        if x.ndim != 3:
            refuse_rank(name, x, "[L, N, I]", "give an axis of lengths, one of the batch and one of inputs")
        if isinstance(x.shape[0], int) and x.shape[0] < 1:
            refuse_option(name, "x", x.shape[0], "a length of at least 1", "give it a sequence that is not empty")
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
        """The gates [N, H] of [N, gates * H], in the order of the letters."""
        return tuple(values[:, i * self.width : (i + 1) * self.width] for i in self.places)

    def run(self, step: Step, initial: Sequence[Any], reverse: bool, lengths: Any) -> tuple[Any, tuple[Any, ...]]:
        """All outputs [L, N, H], and the last states."""
        length, batch = self.x.shape[:2]
        states = tuple(self._state(value, batch) for value in initial)
        ends = None if lengths is None else as_tensor(lengths)
        if ends is not None and ends.shape != (batch,):
            refuse_shapes(self.name, ends, self.x, "there is one length for each sequence of the batch", "give [N]")

        def one(states: tuple[Any, ...], given: tuple[Any, Any]) -> tuple[tuple[Any, ...], Any]:
            gates, going = given
            following = step(gates, states)
            output = following[0]
            if going is not None:
                output = tile.where(going[:, None], output, 0.0)
                following = tuple(tile.where(going[:, None], new, old) for new, old in zip(following, states))
            return following, output.to(self.x.dtype)

        going = None if ends is None else ends > tile.arange(length)[:, None]
        states, outputs = scan(one, states, (self.given, going), reverse=reverse)
        return outputs, tuple(state.to(self.x.dtype) for state in states)

    def _state(self, value: Any, batch: Any) -> Any:
        if value is None:
            return tile.zeros((batch, self.width), self.given.dtype)
        given = as_tensor(value)
        if given.shape != (batch, self.width):
            refuse_shapes(self.name, given, self.x, f"a state is [N, {self.width}]", "give it that shape")
        return given.to(self.given.dtype)
