"""The variant of a plan that calls a library: no code is made; what is called stands where code does.

library.matmul cuBLASLt 131000
  algorithm 2a/14/0/0/0/0/0/0, workspace 1024
  tensor 2[m, n] f16 = tensor 0[m, k] * tensor 1[n, k], f16, m = 256, k = 512, n = 384
"""

from __future__ import annotations

from tiledsl.backend_cuda.build.cubin import Cubin
from tiledsl.backend_cuda.build.variant import Variant
from tiledsl.backend_cuda.frame.kernel_code import CudaSource
from tiledsl.ir.core import Module
from tiledsl.ir.text.printer import print_module
from tiledsl.passes.gpu.plan import Plan
from tiledsl.passes.library.find_product import find_product, formula_of
from tiledsl.passes.library.library_product import LibraryProduct, NoLibraryCallError


def library_variant(module: Module, arch: str, plan: Plan) -> Variant:
    """The variant. Raises ValueError where the program is no product that a library computes."""
    sizes = dict(plan.sizes)
    try:
        product, formula = find_product(module.entry, sizes), formula_of(module.entry, sizes)
    except NoLibraryCallError as error:
        raise ValueError(f"no library computes it: {error}") from error
    text, ir = source_of(plan, product), print_module(Module([formula]))
    return Variant(plan, CudaSource(text, (), (), (), ()), Cubin(b"", arch, "", ()), ir, (), (), (), product)


def source_of(plan: Plan, product: LibraryProduct) -> str:
    """What is called, as text: two calls with one text are one."""
    call = plan.library
    assert call is not None
    how = f"algorithm {call.words}, workspace {call.workspace}"
    return f"library.matmul cuBLASLt {call.version}\n  {how}\n  {product}\n"
