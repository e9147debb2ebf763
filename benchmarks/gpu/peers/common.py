"""What others do for the same computation: PyTorch eager, torch.compile, Triton. Each may be absent or fail."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from benchmarks.gpu.checking import check
from benchmarks.gpu.device import optional

Call: TypeAlias = Callable[[], Any]

COMPILE_BUDGET = 90.0
"""Seconds for torch.compile in a run; what a bar depends on is compiled all the same."""


@dataclass
class Peers:
    """Prepares the peers of each case; says why where one is left out."""

    torch: Any
    say: Callable[[str], None]
    compile_seconds: float = 0.0
    skipped: dict[tuple[str, str], list[str]] = field(default_factory=dict[tuple[str, str], list[str]])
    """The cases that a peer (first) was left out of for a reason (second)."""

    def prepare(
        self, what: str, calls: dict[str, Callable[[], Call]], expected: Any, tolerance: float | None = None
    ) -> dict[str, Call]:
        """The peers that are there and right, each called once. The values of `calls` make them, which may fail."""
        ready: dict[str, Call] = {}
        for name, make in calls.items():
            try:
                call = make()
                _, problem = check(self.torch, call, None, expected, tolerance)
            except Exception as error:  # whatever goes wrong in a peer is no reason to stop
                problem = f"{type(error).__name__}: {first_line(str(error))}"
            else:
                ready[name] = call
            if problem:
                ready.pop(name, None)
                self.skip(name, what, problem)
        return ready

    def skip(self, name: str, what: str, reason: str) -> None:
        cases = self.skipped.setdefault((name, reason), [])
        if not cases:  # what follows for the same reason is counted, and told at the end
            self.say(f"{name} left out of {what}: {reason}")
        cases.append(what)

    def summarise(self) -> None:
        """Says what else was left out for reasons that were told before."""
        for (name, reason), cases in self.skipped.items():
            if len(cases) > 1:
                self.say(f"{name} left out of {', '.join(cases[1:])} too: {reason}")

    def compiled(self, function: Callable[..., Any], tensors: list[Any], *, needed: bool) -> Callable[[], Call]:
        """Makes the call of what torch.compile makes of a function."""

        def make() -> Call:
            if self.compile_seconds > COMPILE_BUDGET and not needed:
                raise TimeoutError(f"compiling took {self.compile_seconds:.0f} s already")
            started = time.perf_counter()
            try:
                self.torch._dynamo.reset()
                compiled = self.torch.compile(function, dynamic=False)
                compiled(*tensors)
                self.torch.cuda.synchronize()
            finally:
                self.compile_seconds += time.perf_counter() - started
            return lambda: compiled(*tensors)

        return make


def triton_kernels() -> Any | None:
    """The module of Triton kernels, where Triton is."""
    return optional("benchmarks.gpu.peers.triton_kernels") if optional("triton") is not None else None


def first_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[0][:120] if lines else "no message"
