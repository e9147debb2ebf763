"""LLVM, through llvmlite: text to optimised machine code, and machine code into this process."""

from __future__ import annotations

from functools import cache

import llvmlite
import llvmlite.binding as llvm

from tiledsl.backend_cpu.llvm.outline import loops

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (llvmlite has no annotations; nothing that lacks a type leaves this file)


@cache
def target_machine() -> llvm.TargetMachine:
    """LLVM's view of the host CPU, with every feature that it has."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten()
    target = llvm.Target.from_default_triple()
    # 512-bit registers are used where the code has 512-bit vectors, whatever LLVM prefers for its own choices
    return target.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=2, jit=True)


def host_description() -> str:
    """The CPU and its features as LLVM names them, and which LLVM: part of the key of everything that is cached."""
    cpu = f"{llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"
    return f"llvmlite {llvmlite.__version__} {cpu}"


MANY_LOOPS = 500
"""Some of LLVM's passes take time with the square of the loops of a function: where there are more, they are left out.
"""


def optimised(text: str) -> llvm.ModuleRef:
    """Parses and optimises LLVM IR. Loops keep their shape: they are vectorised and unrolled already."""
    machine = target_machine()
    module = llvm.parse_assembly(text)
    if any(loops(function) > MANY_LOOPS for function in text.split("\ndefine ")):
        _tidy(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2)))
        return module
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_unrolling = False
    options.loop_interleaving = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return module


def _tidy(module: llvm.ModuleRef, builder: llvm.PassBuilder) -> None:
    """Registers for stack slots, simple instructions, loops that test at their ends."""
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.add_loop_rotate_pass()
    passes.add_new_gvn_pass()
    passes.run(module, builder)


def object_code(text: str) -> bytes:
    """Machine code for the host from LLVM IR."""
    return target_machine().emit_object(optimised(text))


def object_code_as_written(text: str) -> bytes:
    """The same for IR that needs no optimising, which takes longer than the rest."""
    return target_machine().emit_object(llvm.parse_assembly(text))


def assembly(text: str) -> str:
    """The same as assembler text."""
    return target_machine().emit_assembly(optimised(text))


class LinkedCode:
    """Machine code in this process. Keeps it alive; functions are addresses."""

    def __init__(self, code: bytes, names: tuple[str, ...]) -> None:
        library = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
        for name in names:
            library = library.export_symbol(name)
        # one compiler for each program: its library may not outlive it
        self._compiler = llvm.create_lljit_compiler(target_machine(), suppress_errors=True)
        self._tracker = library.link(self._compiler, "tiledsl")
        self.addresses: dict[str, int] = {name: self._tracker[name] for name in names}
