"""How NVRTC calls an architecture.

>>> nvrtc_architecture(gpu_machine("sm_90"), known=[80, 90])
'sm_90a'
"""

from __future__ import annotations

from collections.abc import Sequence

from tiledsl.passes.gpu_machine import GpuMachine, architecture_of
from tiledsl.support.errors import fail
from tiledsl.support.location import Location


def nvrtc_architecture(
    machine: GpuMachine, known: Sequence[int], version: str = "", location: Location | None = None
) -> str:
    """The value of `--gpu-architecture` that gives code with all instructions of the machine.

    `known` are the capabilities that this NVRTC, of that version, compiles for. From sm_90 on the full set goes by a
    letter: wgmma is in `sm_90a`, not in `sm_90`. Raises TileUnsupportedError if the machine is newer than the NVRTC.
    """
    if machine.capability not in known:
        names = ", ".join(f"sm_{capability}" for capability in sorted(known))
        fail("nvrtc-arch", location, name=architecture_of(machine.name), version=version, known=names)
    return architecture_of(machine.name) + ("a" if machine.capability >= 90 else "")
