"""Code for one plan of a program, which needs no planning any more: it is what a saved module keeps."""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tiledsl.backend_cuda.build.stored_variant import variant_from_json, variant_to_json
from tiledsl.backend_cuda.build.variant import Variant
from tiledsl.support.location import Location
from tiledsl.support.options import LOG

if TYPE_CHECKING:
    from tiledsl.backend_cuda.driver.loaded import BoundKernels, LoadedKernels
    from tiledsl.backend_cuda.library.library_kernels import BoundLibrary

_MAGIC = b"tiledsl plan for CUDA\n"
_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True)
class PlannedDescription:
    """The sizes of a launch, and the plan of the code for them."""

    sizes: Mapping[str, int]
    plan: str

    def __str__(self) -> str:
        sizes = ", ".join(f"{name} = {size}" for name, size in self.sizes.items())
        return f"{sizes}: {self.plan}" if sizes else self.plan


@dataclass(frozen=True, eq=False)
class PlannedProgram:
    """`name` and `location` are the kernel's in the user's program, for messages. `origin`: where the plan comes from,
    in words; empty: the model chose it, and nobody had another."""

    name: str
    location: Location
    variant: Variant
    origin: str = ""
    instead: Variant | None = None
    """Of a call of a library: the code by the model's plan, for where the library is not, or is another."""
    _loaded: dict[int, LoadedKernels] = field(default_factory=dict[int, "LoadedKernels"])
    _lock: Any = field(default_factory=threading.Lock)

    @cached_property
    def plan(self) -> str:
        """All of the plan as text."""
        return repr(self.variant.plan)

    @property
    def description(self) -> str:
        """The plan and what its code takes of the device."""
        if self.variant.product is not None:
            return f"{self.variant.plan}; {self.variant.product}"
        used = [
            f"{kernel['registers']} registers, {kernel['spills']} bytes spilled, {kernel['shared']} bytes shared"
            for kernel in self.variant.resources.values()
        ]
        return f"{self.variant.plan}; {'; '.join(used)}"

    def to_bytes(self) -> bytes:
        """Everything in one piece."""
        place = self.location
        described = {
            "name": self.name,
            "location": [place.file, place.line, place.column, place.end_line, place.end_column],
            "variant": variant_to_json(self.variant),
            "origin": self.origin,
            "instead": None if self.instead is None else variant_to_json(self.instead),
        }
        text = json.dumps(described).encode()
        code = self.variant.cubin if self.instead is None else self.instead.cubin  # a library's call has none
        return _MAGIC + _LENGTH.pack(len(text)) + text + code

    @staticmethod
    def from_bytes(data: bytes) -> PlannedProgram:
        """The inverse of `to_bytes`. ValueError if the data is something else."""
        if not data.startswith(_MAGIC):
            raise ValueError("not a planned program")
        start = len(_MAGIC) + _LENGTH.size
        (length,) = _LENGTH.unpack_from(data, len(_MAGIC))
        described: dict[str, Any] = json.loads(data[start : start + length])
        code, place = data[start + length :], Location(*described["location"])
        other = described["instead"]
        instead = None if other is None else variant_from_json(other, code)
        variant = variant_from_json(described["variant"], code if other is None else b"")
        return PlannedProgram(described["name"], place, variant, described["origin"], instead)

    def load(self) -> PlannedProgram:
        """Itself. Code goes to a device when it is first asked for there."""
        return self

    def bind_cuda(
        self,
        symbols: Mapping[str, int],
        strides: Sequence[tuple[int, ...]],
        alignment: tuple[int, ...],
        device: int,
        lying: tuple[int, ...] = (),
    ) -> BoundKernels | BoundLibrary:
        """Loads the code on the device. Sizes and alignments are those that the plan was chosen for."""
        from tiledsl.backend_cuda.driver.loaded import LoadedKernels  # the driver: not for those who only compile

        del alignment, lying
        variant = self.variant
        if variant.product is not None:
            from tiledsl.backend_cuda.library.library_kernels import bound_library

            described, named = PlannedDescription(symbols, str(variant.plan)), (self.name, self.location)
            bound = bound_library(variant.product, variant.plan.library, strides, device, named, described)
            if not isinstance(bound, str):
                return bound
            assert self.instead is not None
            LOG.info("the plan (%s) of %s is not used: %s; the model's is", variant.plan, self.name, bound)
            variant = self.instead
        with self._lock:
            loaded = self._loaded.get(device)
            if loaded is None:
                loaded = self._loaded[device] = LoadedKernels(
                    variant.cubin, variant.program, device,
                    name=self.name, arch=variant.machine_code.arch, location=self.location,
                )  # fmt: skip
        return loaded.bind(symbols, strides, PlannedDescription(symbols, str(variant.plan)))
