"""The short way from PyTorch's tensors to a launch, for calls like an earlier one.

A launch takes the driver 3 us, and to ask eight tensors for dtype, shape and strides takes Python nearly as long.
PyTorch has a check in C++ of whether tensors are in everything like some others, made for `torch.compile`: type, dtype,
device, shape, strides, whether a gradient is wanted, lazy negation. It costs a fifth. Where it is missing, or says no,
tensors are asked one by one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import cache
from operator import itemgetter
from typing import Any, Protocol

from tiledsl.ir.dtypes import DType
from tiledsl.runtime.arrays.address_rules import Addresses, Go
from tiledsl.runtime.calls.missed import MISSED

MOST_CHECKED = 8
"""Launches whose likeness is tried before tensors are asked one by one."""
MOST_REBUILT = 8
"""Checks that are made for one launch: some calls (a tensor passed twice) pass none."""
MOST_KEYS = 2048
"""Launches that are remembered for each form."""


class TensorLaunch(Protocol):
    """What calls with tensors that are like certain ones come to: of a kernel or of a module, on some device."""

    @property
    def device(self) -> int: ...

    @property
    def tensors(self) -> tuple[int, ...]:
        """Where the tensors stand among the arguments."""
        ...

    @property
    def plain(self) -> bool:
        """Whether all that a call takes are the addresses, and what it gives is the one array of `out`."""
        ...

    @property
    def accepted(self) -> dict[Addresses, Go]:
        """What runs on tensors at addresses that were seen before: those of the arguments, then those of `out`."""
        ...

    def accept(self, addresses: Addresses, /) -> Go | None:
        """The same for any addresses; None where the tensors must be looked at more closely."""
        ...

    def run(
        self, go: Go, addresses: Addresses, arguments: Sequence[Any], outputs: Sequence[Any] | None, stream: int, /
    ) -> object:
        """Makes what is not there yet, runs, and gives what the call gives."""
        ...


class _Known:
    """A launch with the check for it, on `count` tensors: those of the arguments, then those of `out`."""

    def __init__(self, launch: TensorLaunch, tensors: Sequence[Any], torch: Any) -> None:
        self.launch = launch
        self.count = len(tensors)
        self._torch = torch
        self._rebuilt = 0
        self.check: Callable[..., bool] = _never
        self.renew(tensors)

    def renew(self, tensors: Sequence[Any]) -> None:
        """Makes the check for tensors like these, in the state that PyTorch is in now (inference mode ...)."""
        if self._rebuilt < MOST_REBUILT:
            self._rebuilt += 1
            self.check = likeness(self._torch, tensors) or self.check


class _Form:
    """Calls whose arguments are of the same classes, and whose compile-time constants are the same."""

    def __init__(self, positions: tuple[int, ...], count: int, arguments: int, torch: Any) -> None:
        """`positions` of tensors among `arguments` arguments; `count` of them together with the arrays of `out`."""
        self.count = count
        self._torch = torch
        self.pick: Callable[[Any], tuple[Any, ...]] | None = None
        if positions != tuple(range(arguments)):
            self.pick = itemgetter(*positions) if len(positions) > 1 else lambda args: tuple(args[i] for i in positions)
        self.recent: tuple[_Known, ...] = ()
        self._by_key: dict[tuple[object, ...], _Known] = {}

    def find(self, tensors: Sequence[Any]) -> _Known | None:
        """The launch for tensors that no recent check knew."""
        key = _key(tensors)
        known = self._by_key.get(key)
        if known is None or any(tensor.is_neg() for tensor in tensors):
            return None
        if any(tensor.requires_grad for tensor in tensors) and self._torch.is_grad_enabled():
            return None
        if not known.check(*tensors):
            known.renew(tensors)
        self._put_first(known)
        return known

    def learn(self, launch: TensorLaunch, tensors: Sequence[Any]) -> None:
        known = _Known(launch, tensors, self._torch)
        if len(self._by_key) >= MOST_KEYS:
            self._by_key.clear()
        self._by_key[_key(tensors)] = known
        self._put_first(known)

    def _put_first(self, known: _Known) -> None:
        others = (other for other in self.recent if other is not known)
        self.recent = (known, *itertools.islice(others, MOST_CHECKED - 1))


class TorchCalls:
    """Calls of one kernel or module. Safe to use from several threads at once."""

    def __init__(self, torch: Any, stream: Callable[[int], int], constant: Sequence[bool]) -> None:
        """`torch` is the module, `stream` gives the current stream of a device; `constant` tells which parameters are
        compile-time constants."""
        self._classes = (torch.Tensor, torch.nn.Parameter)
        self._data_ptr: Callable[[Any], int] = torch.Tensor.data_ptr
        self._stream = stream
        self._torch = torch
        self._constant = tuple(constant)
        self._arity = len(self._constant)
        self._by_value = any(constant)
        """Whether forms are told apart by the values of arguments, besides their classes."""
        self._forms: dict[tuple[object, ...], _Form] = {}
        self._last: _Known | None = None
        """The latest of the launches whose arguments are tensors one and all."""

    def call(self, args: tuple[Any, ...], out: Any) -> object:
        """Launches, if an earlier call was like this one; gives `MISSED` if not, or if it takes a closer look."""
        if len(args) != self._arity:  # some are missing, or too many
            return MISSED
        last = self._last
        if last is not None:  # the check sees to the classes too, so that there is no need to look for the form
            tensors = args if out is None else (*args, out)
            if len(tensors) == last.count and last.check(*tensors):
                launch = last.launch
                addresses = tuple(map(self._data_ptr, tensors))
                go = launch.accepted.get(addresses) or launch.accept(addresses)
                if go is None:
                    return MISSED
                if launch.plain and out is not None:
                    go(addresses, (), self._stream(launch.device))
                    return out
                return launch.run(go, addresses, args, None if out is None else (out,), self._stream(launch.device))
        return self._call_by_form(args, out)

    def _call_by_form(self, args: tuple[Any, ...], out: Any) -> object:
        if self._by_value:
            form = self._forms.get(self._valued_key(args, out))
        else:
            form = self._forms.get((out.__class__, *map(type, args)))
        if form is None:
            return MISSED
        tensors = args if form.pick is None else form.pick(args)
        outputs = None
        if out is not None:
            outputs = out if out.__class__ is tuple else (out,)
            tensors = (*tensors, *outputs)
            if len(tensors) != form.count:
                return MISSED
        for known in form.recent:
            if known.check(*tensors):
                break
        else:
            known = form.find(tensors)
            if known is None:
                return MISSED
        if form.pick is None and out.__class__ is not tuple:
            self._last = known
        launch = known.launch
        addresses = tuple(map(self._data_ptr, tensors))
        go = launch.accepted.get(addresses) or launch.accept(addresses)
        if go is None:
            return MISSED
        return launch.run(go, addresses, args, outputs, self._stream(launch.device))

    def learn(self, args: tuple[Any, ...], out: Any, launch: TensorLaunch) -> None:
        """Remembers a call that went the careful way, with `out` as it was passed."""
        outputs: tuple[Any, ...] = () if out is None else out if out.__class__ is tuple else (out,)
        tensors: tuple[Any, ...] = (*(args[position] for position in launch.tensors), *outputs)
        if any(type(tensor) not in self._classes for tensor in tensors):
            return
        if any(not c and (v is None or isinstance(v, (str, DType))) for v, c in zip(args, self._constant)):
            self._by_value = True
        key = self._valued_key(args, out) if self._by_value else (out.__class__, *map(type, args))
        form = self._forms.get(key)
        if form is None:
            if len(self._forms) >= MOST_KEYS:
                self._forms.clear()
            form = self._forms[key] = _Form(launch.tensors, len(tensors), len(args), self._torch)
        form.learn(launch, tensors)

    def _valued_key(self, args: Sequence[Any], out: Any) -> tuple[object, ...]:
        key: list[object] = [out.__class__]
        for value, constant in zip(args, self._constant):
            kind: Any = value.__class__
            key.append(kind)
            if constant or kind is str or kind is DType or value is None:
                key.append(value if kind is int else repr(value))  # repr tells -0.0 from 0.0, and (1,) from (True,)
        return tuple(key)


def _never(*tensors: object) -> bool:
    return False


def _key(tensors: Sequence[Any]) -> tuple[object, ...]:
    return tuple([(t.dtype, t.shape, t.stride(), t.get_device()) for t in tensors])


def likeness(torch: Any, tensors: Sequence[Any]) -> Callable[..., bool] | None:
    """A check of whether tensors are in all that matters like these; None where PyTorch has none that works.

    Where one of these requires a gradient, others pass only while gradients are not recorded.
    """
    guards = guards_of(torch)
    check = None if guards is None else _guard(guards, tensors)
    if check is None or not any(tensor.requires_grad for tensor in tensors):
        return check
    recorded: Callable[[], bool] = torch.is_grad_enabled
    return lambda *others: not recorded() and check(*others)


def _guard(guards: Any, tensors: Sequence[Any]) -> Callable[..., bool] | None:
    try:
        guard = guards(
            *tensors,
            dynamic_dims_sizes=[list(tensor.shape) for tensor in tensors],
            dynamic_dims_strides=[list(tensor.stride()) for tensor in tensors],
        )
        check: Callable[..., bool] = guard.check
        return check if check(*tensors) is True else None
    except (TypeError, ValueError, RuntimeError, AttributeError):
        return None


@cache
def guards_of(torch: Any) -> Any:
    """PyTorch's class of such checks, if it has one and that sees what it must: it is no public part of PyTorch."""
    guards = getattr(getattr(getattr(torch._C, "_dynamo", None), "guards", None), "TensorGuards", None)
    if guards is None:
        return None
    first, second = torch.empty(4, 6), torch.empty(2)
    check = _guard(guards, (first, second))
    if check is None or check(torch.empty(4, 6), torch.empty(2)) is not True:
        return None
    unlike = [
        torch.empty(4, 5), torch.empty(6, 4).t(), torch.empty(4, 6, 1), torch.empty(4, 12)[:, ::2],
        torch.empty(4, 6, dtype=torch.float16), torch.empty(4, 6, device="meta"), torch.empty(4, 6, requires_grad=True),
        torch._neg_view(torch.empty(4, 6)), torch.nn.Parameter(torch.empty(4, 6)), 1.0,
    ]  # fmt: skip
    with torch.enable_grad():
        return None if any(check(tensor, second) for tensor in unlike) else guards
