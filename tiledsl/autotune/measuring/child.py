"""A process on this machine that runs plans. A new one costs about 0.3 s, so it serves for as long as it lives."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tiledsl.autotune.measuring import worker
from tiledsl.autotune.measuring.fork_server import HAS_FORK, Forked, ForkServer
from tiledsl.autotune.measuring.frames import receive, send
from tiledsl.autotune.measuring.host import Host, HostRunner, Limits, Lost, NewHosts
from tiledsl.autotune.measuring.messages import PLACES, Open
from tiledsl.autotune.measuring.workload import Workload

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""What says how many threads NumPy has, which runs the reference."""
STARTS = ("-m", worker.__name__)
"""What Python is started with for a process that measures."""
_END = object()
"""Nothing more is sent to a process."""


class Children:
    """Processes on this machine, which are kept from one program to the next: to import what measures, and to start
    with a GPU, takes longer than most searches do."""

    def __init__(self, threads: int = 1, imports: Sequence[str] | None = None) -> None:
        """`threads`: of the reference in each of them; `imports`: modules that they begin with, forked from one process
        that has them, where that can be done. None: each is started by itself, and its memory lies elsewhere."""
        self.starts: Sequence[str] = STARTS
        """What Python is started with for each, where none is forked."""
        self._threads = threads
        self._imports = imports
        self._server: ForkServer | None = None
        self._idle: list[Child] = []
        self._lock = threading.Lock()
        self._open = True

    def begin(self) -> None:
        """Starts what takes a while, and does not wait for it."""
        with self._lock:
            if self._server is None and self._open and self._imports is not None and HAS_FORK:
                self._server = ForkServer(_environment(self._threads), worker.__name__, self._imports)

    def ready(self, count: int, workload: Workload) -> None:
        """Has so many processes begin with a workload, and does not wait for them: what they open for the first time
        takes longer than for the next ones."""
        for child in [self.take() for _ in range(count)]:
            child.send(Open(workload, "nothing"))
            self.give_back(child)

    def take(self) -> Child:
        """As `Hosts.take`."""
        self.begin()
        with self._lock:
            if self._idle:
                return self._idle.pop(0)
        return Child(self._threads, self._server, self.starts)

    def give_back(self, host: Host) -> None:
        """As `Hosts.give_back`."""
        assert isinstance(host, Child)
        with self._lock:
            if self._open:
                self._idle.append(host)
                return
        host.end()

    def close(self) -> None:
        """Ends all processes that were given back, and those that will be."""
        with self._lock:
            self._open = False
            idle, self._idle = self._idle, []
            server, self._server = self._server, None
        for child in idle:
            child.kill()  # all of them: one that has worked with a GPU takes a tenth of a second to end
        if server is not None:
            server.close()
        for child in idle:
            child.end()

    def __enter__(self) -> Children:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ChildRunner(HostRunner):
    """A runner whose plans run in processes on this machine that it does not share."""

    def __init__(self, workload: Workload, limits: Limits = Limits()) -> None:  # noqa: B008  # it is frozen
        super().__init__(workload, NewHosts(Child), limits)


def _environment(threads: int) -> dict[str, str]:
    """Of a process that imports what this one can."""
    paths = os.pathsep.join(path for path in sys.path if path)
    return {**os.environ, **dict.fromkeys(THREADS, str(threads)), "PYTHONPATH": paths}


class Child:
    """One process."""

    def __init__(
        self, threads: int = 1, server: ForkServer | None = None, starts: Sequence[str] = STARTS
    ) -> None:  # fmt: skip
        """`threads`: of the reference. One does not fight for the cores with what is timed there. `server`: forks the
        process; it is started by itself where there is none, by Python with the arguments `starts`."""
        self._folder = tempfile.TemporaryDirectory(prefix="tiledsl-")
        self._place = Path(self._folder.name) / "plan"
        self._place.write_bytes(bytes(PLACES))
        self._errors = open(Path(self._folder.name) / "errors", "w+b")  # noqa: SIM115  # `end` closes it
        forked = None if server is None else server.start(self._errors.fileno())
        self._process: Forked | subprocess.Popen[bytes] = forked or subprocess.Popen(
            [sys.executable, *starts],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, env=_environment(threads),
            start_new_session=True,  # Ctrl-C is for the search, which ends this process by itself
        )  # fmt: skip
        self._answers: queue.Queue[Any] = queue.Queue()
        self._owed = 0
        """Requests without an answer yet."""
        threading.Thread(target=self._listen, daemon=True).start()
        assert self._process.stdin is not None
        self._requests: Any = self._process.stdin
        self._to_send: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=self._write, daemon=True).start()
        self._to_send.put((sys.path, str(self._place)))

    def send(self, request: object) -> None:
        """As `Host.send`."""
        self._owed += 1
        self._to_send.put(request)

    def answer(self, seconds: float) -> Any:
        """As `Host.answer`. Answers that nobody has waited for are left."""
        end = time.monotonic() + seconds
        answer: Any = None
        while self._owed:
            try:
                answer = self._answers.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise Lost(True, f"it took longer than {seconds:.3g} s") from None
            if isinstance(answer, EOFError):
                raise Lost(False, self._end_of_process())
            self._owed -= 1
        return answer

    def place(self) -> int:
        """The number of the plan that was being run, from 1 on; 0 if none was."""
        return int.from_bytes(self._place.read_bytes(), "little")

    def kill(self) -> None:
        """Begins to end the process."""
        self._process.kill()

    def end(self) -> None:
        """Ends the process, whatever it does."""
        self._process.kill()
        self._process.wait()
        self._to_send.put(_END)
        self._errors.close()
        self._folder.cleanup()

    def _write(self) -> None:
        """Sends what is to be sent: a pipe takes no more than a page before the other side reads, which it does when
        it has imported everything."""
        while (message := self._to_send.get()) is not _END:
            try:
                send(self._requests, message)
            except OSError:  # noqa: PERF203  # it is gone; so are its answers
                self._answers.put(EOFError())
        with contextlib.suppress(OSError):
            self._requests.close()

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
        said: list[str] = []
        with contextlib.suppress(ValueError):  # `end` has closed it in another thread
            self._errors.seek(0)
            said = self._errors.read()[-4096:].decode(errors="replace").strip().splitlines()
        how = f"ended with code {code}"
        if code < 0:
            names = {one.value: one.name for one in signal.Signals}
            how = f"ended by {names.get(-code, f'signal {-code}')}"
        return f"the process {how}" + (f": {said[-1]}" if said else "")
