"""Processes that begin with everything imported: a server that has imported it forks whenever one is wanted.

To start Python and import the compiler takes a third of a second of a core, and many processes that do so at once wait
for each other; to fork takes a hundredth. The server compiles nothing, starts no thread and no driver, so that its
children begin as a new process does. Memory lies alike in all of them: who is timed on a CPU is no child of it.
"""

from __future__ import annotations

import contextlib
import gc
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from importlib import import_module
from typing import BinaryIO

HAS_FORK = hasattr(os, "fork") and hasattr(socket, "send_fds")
ENDS = 3
"""Files that a process is started with: where it reads, writes, and says what is wrong."""
_STARTED, _ENDED = 0, 1
_SAID = struct.Struct("<iii")
"""What the server says: of what kind it is, of which process, and how that has ended, as `waitpid` has it."""
_CHUNK = 4096


class Forked:
    """A process that a server has forked, as `subprocess.Popen` has one."""

    def __init__(self, stdin: BinaryIO, stdout: BinaryIO) -> None:
        self.stdin = stdin
        self.stdout = stdout
        self.started: Future[int] = Future()
        self.ended: Future[int] = Future()

    @property
    def pid(self) -> int:
        """Waits until there is one; 0 where the server is gone."""
        return self.started.result()

    def poll(self) -> int | None:
        return self.ended.result() if self.ended.done() else None

    def wait(self) -> int:
        """The exit code, or a signal as a negative number."""
        return self.ended.result()

    def kill(self) -> None:
        """Ends it as soon as it runs, and does not wait for that."""
        self.started.add_done_callback(self._kill)

    def _kill(self, started: Future[int]) -> None:
        if started.result() and not self.ended.done():
            with contextlib.suppress(ProcessLookupError):
                os.kill(started.result(), signal.SIGKILL)


class ForkServer:
    """The server, as who wants processes sees it. Threads may share it."""

    def __init__(self, environment: Mapping[str, str], runs: str, imports: Sequence[str] = ()) -> None:
        """Starts it, and does not wait. `runs`: the module whose `main` a process is; `imports`: what else it needs."""
        self._lock = threading.Lock()
        self._starting: list[Forked] = []
        self._running: dict[int, Forked] = {}
        self._open = True
        self._socket, theirs = socket.socketpair()
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(theirs.fileno()), runs, *imports],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, pass_fds=[theirs.fileno()], env=dict(environment),
            start_new_session=True,  # Ctrl-C is for the search
        )  # fmt: skip
        theirs.close()
        threading.Thread(target=self._listen, daemon=True).start()

    def start(self, errors: int) -> Forked | None:
        """A new process, which writes what is wrong to an open file; None where the server is gone."""
        theirs_in, stdin = os.pipe()
        stdout, theirs_out = os.pipe()
        made = Forked(os.fdopen(stdin, "wb"), os.fdopen(stdout, "rb"))
        with self._lock:
            if self._open:
                self._starting.append(made)
                with contextlib.suppress(OSError):  # it is gone, of which `_listen` hears too
                    socket.send_fds(self._socket, [b"f"], [theirs_in, theirs_out, errors])
        for end in (theirs_in, theirs_out):
            os.close(end)
        if self._open:
            return made
        made.stdin.close()
        made.stdout.close()
        return None

    def close(self) -> None:
        """Ends the server; what it has forked ends soon after it, and is not waited for."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._process.kill()
        self._process.wait()

    def _listen(self) -> None:
        data = b""
        with contextlib.suppress(OSError):
            while received := self._socket.recv(_CHUNK):
                data += received
                while len(data) >= _SAID.size:
                    self._hear(*_SAID.unpack(data[: _SAID.size]))
                    data = data[_SAID.size :]
        self._socket.close()
        with self._lock:
            self._open = False
            left, started = [*self._running.values(), *self._starting], len(self._running)
        for number, process in enumerate(left):
            if number >= started:
                process.started.set_result(0)
            process.ended.set_result(-signal.SIGKILL)

    def _hear(self, kind: int, pid: int, status: int) -> None:
        with self._lock:
            if kind == _STARTED:
                process = self._running[pid] = self._starting.pop(0)
            else:
                process = self._running.pop(pid)
        if kind == _STARTED:
            process.started.set_result(pid)
        else:
            process.ended.set_result(os.waitstatus_to_exitcode(status))


def serve(ours: socket.socket, runs: str) -> None:
    """Forks as often as is asked, until the other side is gone, and says how processes have ended."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.signal(signal.SIGCHLD, _wake)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    with selectors.DefaultSelector() as ready:
        ready.register(ours, selectors.EVENT_READ)
        ready.register(reader, selectors.EVENT_READ)
        while True:
            files = [key.fileobj for key, _ in ready.select()]
            if reader in files:
                with contextlib.suppress(BlockingIOError):
                    os.read(reader, _CHUNK)
                _tell_ends(ours)
            if ours in files:
                asked, ends, _, _ = socket.recv_fds(ours, 1, ENDS)
                if not asked:
                    return
                pid = os.fork()
                if pid == 0:
                    ours.close()
                    _become(runs, ends)
                for end in ends:
                    os.close(end)
                ours.sendall(_SAID.pack(_STARTED, pid, 0))


def _wake(number: int, frame: object) -> None:
    """A process has ended: `serve` reads of it."""


def _tell_ends(ours: socket.socket) -> None:
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            ours.sendall(_SAID.pack(_ENDED, pid, status))


def _become(runs: str, ends: Sequence[int]) -> None:
    """What a new process does: it never returns."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for place, end in enumerate(ends):
            os.dup2(end, place)
            os.close(end)
        import_module(runs).main()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        with contextlib.suppress(BaseException):
            sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    for wanted in sys.argv[2:]:
        with contextlib.suppress(Exception):  # who needs it says so
            import_module(wanted)
    gc.freeze()  # pages of what is imported stay shared
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2])
