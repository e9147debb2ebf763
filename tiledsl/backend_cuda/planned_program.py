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

if TYPE_CHECKING:
    from tiledsl.backend_cuda.driver.loaded import BoundKernels, LoadedKernels

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
    _loaded: dict[int, LoadedKernels] = field(default_factory=dict[int, "LoadedKernels"])
    _lock: Any = field(default_factory=threading.Lock)

    @cached_property
    def plan(self) -> str:
        """All of the plan as text."""
        return repr(self.variant.plan)

    @property
    def description(self) -> str:
        """The plan and what its code takes of the device."""
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
        }
        text = json.dumps(described).encode()
        return _MAGIC + _LENGTH.pack(len(text)) + text + self.variant.cubin

    @staticmethod
    def from_bytes(data: bytes) -> PlannedProgram:
        """The inverse of `to_bytes`. ValueError if the data is something else."""
        if not data.startswith(_MAGIC):
            raise ValueError("not a planned program")
        start = len(_MAGIC) + _LENGTH.size
        (length,) = _LENGTH.unpack_from(data, len(_MAGIC))
        described: dict[str, Any] = json.loads(data[start : start + length])
        variant = variant_from_json(described["variant"], data[start + length :])
        return PlannedProgram(described["name"], Location(*described["location"]), variant, described.get("origin", ""))

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
    ) -> BoundKernels:
        """Loads the code on the device. Sizes and alignments are those that the plan was chosen for."""
        from tiledsl.backend_cuda.driver.loaded import LoadedKernels  # the driver: not for those who only compile

        del alignment, lying
        variant = self.variant
        with self._lock:
            loaded = self._loaded.get(device)
            if loaded is None:
                loaded = self._loaded[device] = LoadedKernels(
                    variant.cubin, variant.program, device,
                    name=self.name, arch=variant.machine_code.arch, location=self.location,
                )  # fmt: skip
        return loaded.bind(symbols, strides, PlannedDescription(symbols, str(variant.plan)))
