"""A specialisation on NVIDIA GPUs: its TILE module, and a variant of code for each plan that calls have asked for.

The sizes and alignments of a call choose a plan (`passes/gpu/choose_plans.py`); calls with the same plan share code.
Variants are kept in memory, loaded once per device, and on disk beside the specialisation.
"""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tiledsl.backend_cuda.compile import Variant, compile_variant
from tiledsl.backend_cuda.loaded import BoundKernels, LoadedKernels
from tiledsl.backend_cuda.nvrtc import nvrtc_version
from tiledsl.backend_cuda.stored_variant import variant_from_json, variant_to_json
from tiledsl.ir.core import Module
from tiledsl.ir.parser import parse_module
from tiledsl.ir.printer import print_module
from tiledsl.passes.gpu.choose_plans import choose_plans
from tiledsl.passes.gpu.plan import Plan
from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.runtime.cache import DiskCache, compiler_identity, digest, disk_cache
from tiledsl.support.options import read_options

_HEADER = struct.Struct("<8sQ")
_MAGIC = b"tiledslC"


class CudaProgram:
    """Compiled for one architecture. `module` is in form `tile-placed`; its sizes may be symbols."""

    def __init__(self, module: Module, arch: str, default: Variant) -> None:
        """`default` is the variant for the sizes that the specialisation knows, made when it was compiled."""
        self.module = module
        self.arch = arch
        self.default = default

    @staticmethod
    def compile(module: Module, arch: str) -> CudaProgram:
        """Compiles for the sizes that the module knows, and a guess for the others."""
        plans = choose_plans(module.entry, gpu_machine(arch), {}, ())
        return CudaProgram(module, arch, compile_variant(module, arch, plans))

    @property
    def source(self) -> str:
        """The CUDA C of the default variant."""
        return self.default.source.text

    @property
    def cubin(self) -> bytes:
        """The machine code of the default variant."""
        return self.default.cubin.code

    @property
    def gpu_ir(self) -> str:
        """The GPU IR of the default variant."""
        return self.default.gpu_ir

    @property
    def resources(self) -> dict[str, int]:
        """Of the default variant, the most of any of its kernels: `registers` per thread, `spills` and `shared` in
        bytes (per thread, per block), `threads` per block, `code` in bytes.
        """
        kernels, codes = self.default.cubin.kernels, self.default.source.kernels
        return {
            "registers": max((k.registers for k in kernels), default=0),
            "spills": max((k.spill_store_bytes + k.spill_load_bytes for k in kernels), default=0),
            "shared": max((k.shared_bytes for k in codes), default=0),
            "threads": max((k.threads for k in codes), default=0),
            "code": len(self.default.cubin.code),
        }

    @cached_property
    def text(self) -> str:
        """The TILE module, with locations."""
        return print_module(self.module, locations=True)

    def to_bytes(self) -> bytes:
        """Everything in one piece, for the disk."""
        described = {"module": self.text, "arch": self.arch, "default": variant_to_json(self.default)}
        text = json.dumps(described).encode()
        return _HEADER.pack(_MAGIC, len(text)) + text + self.default.cubin.code

    @staticmethod
    def from_bytes(data: bytes) -> CudaProgram:
        """The inverse of `to_bytes`. ValueError if the data is something else."""
        magic, length = _HEADER.unpack_from(data)
        if magic != _MAGIC:
            raise ValueError("not a compiled program")
        end = _HEADER.size + length
        described: dict[str, Any] = json.loads(data[_HEADER.size : end])
        default = variant_from_json(described["default"], data[end:])
        return CudaProgram(parse_module(described["module"]), described["arch"], default)

    def load(self) -> LoadedCudaProgram:
        """For calls in this process. Code goes to a device when it is first asked for there."""
        return LoadedCudaProgram(self)


@dataclass(frozen=True)
class BoundDescription:
    """What was chosen for the sizes of a call."""

    plan: Plan
    notes: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([f"plan: {self.plan}", *self.notes])


class LoadedCudaProgram:
    """A program in this process: `bind_cuda` it to sizes, then call it."""

    def __init__(self, program: CudaProgram) -> None:
        self.program = program
        self._variants: dict[Plan, Variant] = {program.default.plan: program.default}
        self._loaded: dict[tuple[Plan, int], LoadedKernels] = {}
        self._lock = threading.Lock()

    @property
    def variants(self) -> list[Variant]:
        """Every variant that calls have asked for so far."""
        return list(self._variants.values())

    def bind_cuda(
        self, symbols: Mapping[str, int], strides: Sequence[tuple[int, ...]], alignment: tuple[int, ...], device: int
    ) -> BoundKernels:
        """Chooses a plan for those sizes and alignments, compiles it if nobody has, and loads it on the device."""
        program = self.program
        plans = choose_plans(program.module.entry, gpu_machine(program.arch), symbols, alignment)
        with self._lock:
            variant = self._variants.get(plans[0])
            if variant is None:
                variant = self._find(plans)
                self._variants[plans[0]] = variant
            loaded = self._loaded.get((variant.plan, device))
            if loaded is None:
                function = program.module.entry
                loaded = LoadedKernels(
                    variant.cubin.code, variant.source, device,
                    name=function.name, arch=program.arch, location=function.location,
                )  # fmt: skip
                self._loaded[variant.plan, device] = loaded
        return loaded.bind(symbols, strides, BoundDescription(variant.plan, variant.notes))

    def _find(self, plans: Sequence[Plan]) -> Variant:
        """The variant for the best of the plans, from the disk or made now."""
        program = self.program
        disk = _disk()
        entry = digest([compiler_identity(), str(nvrtc_version()), program.arch, program.text, repr(plans[0])])
        content = None if disk is None else disk.get(entry)
        if content is not None:
            (length,) = struct.unpack_from("<Q", content)
            return variant_from_json(json.loads(content[8 : 8 + length]), content[8 + length :])
        variant = compile_variant(program.module, program.arch, plans)
        if disk is not None:
            text = json.dumps(variant_to_json(variant)).encode()
            disk.put(entry, struct.pack("<Q", len(text)) + text + variant.cubin.code)
        return variant


def _disk() -> DiskCache | None:
    options = read_options()
    return None if options.cache_directory is None else disk_cache(options.cache_directory, options.cache_bytes)
