"""What processes begin with that compile: the compiler, and the library that makes machine code of CUDA C, which take
longer to load than a small kernel takes to compile. Both are loaded at once; nothing runs beside who imports this
afterwards, since it is to be forked."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from threading import Thread

from tiledsl.backend_cuda.build.nvrtc import load_nvrtc
from tiledsl.support.errors import TileError

MODULES = (
    "tiledsl.ir.text.parser",
    "tiledsl.backend_cuda.build.compile",
    "tiledsl.autotune.measuring.cuda_build",
)


def _load() -> None:
    with suppress(TileError):  # who compiles says it
        load_nvrtc()


_loading = Thread(target=_load)
_loading.start()
LOADED = tuple(import_module(name) for name in MODULES)
_loading.join()
