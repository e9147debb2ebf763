"""Runs plans in a process of its own, which is ended when one hangs, and started anew when one ends it.

A new process costs about 0.3 s, so one serves for as long as it lives.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiledsl.autotune.measuring import worker
from tiledsl.autotune.measuring.frames import receive, send
from tiledsl.autotune.measuring.messages import PLACES, Check, Open, Refusal, Time
from tiledsl.autotune.measuring.runner import Checked, Failed, Rounds
from tiledsl.autotune.measuring.workload import Workload

ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""NumPy, which runs the reference, does not fight for the cores with what is timed."""


@dataclass(frozen=True)
class Limits:
    """Seconds after which a process is taken to hang: at making the reference, at checking a plan, at rounds of samples
    beyond ten times what the plans took before."""

    prepare: float = 120.0
    check: float = 20.0
    rounds: float = 20.0


class Lost(Exception):  # noqa: N818  # it is caught here
    """The process is gone. `hung`: it was ended because it took too long."""

    def __init__(self, hung: bool, reason: str) -> None:
        super().__init__(reason)
        self.hung = hung
        self.reason = reason


class CannotPrepareError(Exception):
    """The workload cannot be opened, whatever the plan. `error`: the user's, if it is one."""


class ChildRunner:
    """A runner whose plans run in another process."""

    def __init__(self, workload: Workload, limits: Limits = Limits()) -> None:  # it is frozen
        self._workload = workload
        self._limits = limits
        self._child: _Child | None = None
        self.started = 0
        """How many processes were started."""

    def ahead(self, plans: Sequence[str]) -> None:
        """Nothing: one plan is run at a time."""

    def check(self, plan: str) -> Checked:
        """As `Runner.check`. Raises CannotPrepareError where no plan can be run."""
        child = self._running()
        try:
            answer = child.ask(Check(plan), self._limits.check)
        except Lost as lost:
            self.close()
            return Checked("timeout" if lost.hung else "crash", lost.reason)
        return Checked("refused", answer.text) if isinstance(answer, Refusal) else answer

    def rounds(self, plans: Sequence[str], count: int) -> Rounds:
        """As `Runner.rounds`."""
        child, done = self._running(), list[tuple[float, ...]]()
        longest = 0.0
        while len(done) < count:
            part = 1 if not done else max(1, min(count - len(done), int(1 / max(longest, 1e-6))))  # about a second
            try:
                answer = child.ask(Time(tuple(plans), part), self._limits.rounds + 10 * part * longest)
            except Lost as lost:
                plan = plans[max(0, child.place() - 1)]
                self.close()
                return Rounds(done, Failed(plan, "timeout" if lost.hung else "crash", lost.reason))
            if isinstance(answer, Refusal):
                return Rounds(done, Failed(plans[0], "crash", answer.text))
            done += answer.times
            longest = max(longest, *map(sum, answer.times))
        return Rounds(done)

    def close(self) -> None:
        """Ends the process."""
        if self._child is not None:
            self._child.end()
            self._child = None

    def _running(self) -> _Child:
        if self._child is None:
            child = self._child = _Child()
            self.started += 1
            try:
                answer = child.ask(Open(self._workload), self._limits.prepare)
            except Lost as lost:
                self.close()
                raise CannotPrepareError(lost.reason) from lost
            if isinstance(answer, Refusal):
                self.close()
                raise CannotPrepareError(answer.text)
        return self._child


class _Child:
    """One process."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tiledsl-")
        self._place = Path(self._folder.name) / "plan"
        self._place.write_bytes(bytes(PLACES))
        self._errors = open(Path(self._folder.name) / "errors", "w+b")  # noqa: SIM115  # `end` closes it
        self._process = subprocess.Popen(
            [sys.executable, "-m", worker.__name__],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
            env={**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            start_new_session=True,  # Ctrl-C is for the search, which ends this process by itself
        )  # fmt: skip
        self._answers: queue.Queue[Any] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()
        assert self._process.stdin is not None
        self._requests: Any = self._process.stdin
        self._send((sys.path, str(self._place)))

    def ask(self, request: object, seconds: float) -> Any:
        """The answer to a request. Raises Lost where there is none within that time."""
        self._send(request)
        try:
            answer = self._answers.get(timeout=seconds)
        except queue.Empty:
            raise Lost(True, f"it took longer than {seconds:.3g} s") from None
        if isinstance(answer, EOFError):
            raise Lost(False, self._end_of_process())
        return answer

    def place(self) -> int:
        """The number of the plan that was being run, from 1 on; 0 if none was."""
        return int.from_bytes(self._place.read_bytes(), "little")

    def end(self) -> None:
        """Ends the process, whatever it does."""
        self._process.kill()
        self._process.wait()
        self._requests.close()
        self._errors.close()
        self._folder.cleanup()

    def _send(self, message: object) -> None:
        try:
            send(self._requests, message)
        except OSError:  # it is gone; so are its answers
            self._answers.put(EOFError())

    def _listen(self) -> None:
        assert self._process.stdout is not None
        pipe: Any = self._process.stdout
        try:
            while True:
                self._answers.put(receive(pipe))
        except (EOFError, OSError, ValueError) as _:
            self._answers.put(EOFError())
        finally:
            pipe.close()

    def _end_of_process(self) -> str:
        """How the process ended, with the last line that it wrote."""
        code = self._process.wait()
        self._errors.seek(0)
        said = self._errors.read()[-4096:].decode(errors="replace").strip().splitlines()
        how = f"ended with code {code}"
        if code < 0:
            names = {one.value: one.name for one in signal.Signals}
            how = f"ended by {names.get(-code, f'signal {-code}')}"
        return f"the process {how}" + (f": {said[-1]}" if said else "")
