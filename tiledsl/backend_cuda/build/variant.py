"""Code for one plan, and what is known of it.

Nothing here knows how code is compiled: code from the disk does not need that.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiledsl.backend_cuda.build.cubin import Cubin
from tiledsl.backend_cuda.frame.kernel_code import CudaSource
from tiledsl.passes.gpu.plan import Plan
from tiledsl.passes.library.library_product import LibraryProduct
from tiledsl.passes.manager import Remark
from tiledsl.runtime.programs.variant_report import TileReport


@dataclass(frozen=True)
class Variant:
    """Code for one plan. `notes` say what became of better plans, `remarks` what passes had to say."""

    plan: Plan
    program: CudaSource
    machine_code: Cubin
    ir: str
    """The GPU IR as text."""
    notes: tuple[str, ...]
    remarks: tuple[Remark, ...]
    tiles: tuple[TileReport, ...] = ()
    product: LibraryProduct | None = None
    """What a library computes instead of kernels of ours, of which there are none then."""

    @property
    def source(self) -> str:
        """CUDA C; of a call of a library what is called."""
        return self.program.text

    @property
    def cubin(self) -> bytes:
        return self.machine_code.code

    @property
    def assembly(self) -> str:
        """The machine code as text (SASS); of a call of a library, whose code is not read, what is called. Raises
        TileRuntimeError where nvdisasm is not installed."""
        if self.product is not None:
            return self.source
        from tiledsl.backend_cuda.build.disassemble import disassembly  # costs start-up time

        return disassembly(self.cubin)

    @property
    def resources(self) -> dict[str, dict[str, int]]:
        """By CUDA function: `registers` per thread, `spills` in bytes per thread, `shared` in bytes and `threads` per
        block, `cluster` blocks.
        """
        measured = {kernel.name: kernel for kernel in self.machine_code.kernels}
        return {
            kernel.name: {
                "registers": measured[kernel.name].registers,
                "spills": measured[kernel.name].spill_store_bytes + measured[kernel.name].spill_load_bytes,
                "shared": kernel.shared_bytes,
                "threads": kernel.threads,
                "cluster": kernel.cluster,
            }
            for kernel in self.program.kernels
            if kernel.name in measured
        }
