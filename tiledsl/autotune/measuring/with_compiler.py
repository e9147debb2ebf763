"""What processes that compile begin with: the compiler, and the library that makes machine code of CUDA C, which take
longer to load than a small kernel takes to compile."""

from __future__ import annotations

from contextlib import suppress

from tiledsl.autotune.measuring import cuda_build
from tiledsl.backend_cuda.build import compile as compiler
from tiledsl.backend_cuda.build.nvrtc import load_nvrtc
from tiledsl.ir.text import parser
from tiledsl.support.errors import TileError

LOADED = (cuda_build, compiler, parser)
with suppress(TileError):  # who compiles says it
    load_nvrtc()
