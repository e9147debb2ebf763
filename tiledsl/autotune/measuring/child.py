"""A process on this machine that runs plans. A new one costs about 0.3 s, so it serves for as long as it lives."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from tiledsl.autotune.measuring import worker
from tiledsl.autotune.measuring.frames import receive, send
from tiledsl.autotune.measuring.host import HostRunner, Limits, Lost
from tiledsl.autotune.measuring.messages import PLACES
from tiledsl.autotune.measuring.workload import Workload

ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""NumPy, which runs the reference, does not fight for the cores with what is timed."""


class ChildRunner(HostRunner):
    """A runner whose plans run in processes on this machine."""

    def __init__(self, workload: Workload, limits: Limits = Limits()) -> None:  # noqa: B008  # it is frozen
        super().__init__(workload, Child, limits)


class Child:
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
