"""Runs generated CUDA C on a CPU: the host's C++ compiler stands in for the GPU's, fibers for threads.

The program is compiled as it is, but for the functions that hold inline PTX, in whose place stands C++ that means the
same. It is strict where a GPU is: an access that is not aligned ends the process, and so does a barrier that not all
threads come to. An asynchronous copy happens when it is waited for, and shared memory is full of ones at the start.
"""

from __future__ import annotations

import atexit
import ctypes
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.support.fakes.fake_driver import fake_driver
from tiledsl.backend_cuda.driver.launched_maps import LaunchedMap
from tiledsl.backend_cuda.frame.kernel_code import CudaSource, KernelCode, KernelParameter, TensorMapCode
from tiledsl.backend_cuda.frame.names import function_of
from tiledsl.backend_ref.arguments import Argument, bind_arguments
from tiledsl.ir.core import Function
from tiledsl.ir.dtypes import BY_NAME, to_numpy
from tiledsl.ir.gpu.matrix_instructions import INSTRUCTIONS
from tiledsl.ir.gpu.warpgroup_instructions import warpgroup_instruction
from tiledsl.ir.layouts.layout import RegisterLayout
from tiledsl.ir.symbolic import evaluate
from tiledsl.ir.tile_ops import Empty, Return
from tiledsl.ir.types import TensorType, TileType

Array = npt.NDArray[Any]

HEADERS = (Path(__file__).with_suffix(".h"), Path(__file__).with_name("async_on_host.h"))
_FUNCTION = re.compile(r"__device__ __(?:forceinline|noinline)__ (.*?\n\})", re.DOTALL)
_KERNEL = re.compile(r'extern "C" __global__ void[^{]*?(\w+)\(([^(){}]*)\) \{')
_MATRICES = re.compile(r"(read|write)_matrices_(\d)(_transposed)?")
_READ = re.compile(r"(?:load|read|stream)(?:_along)?_(?!shared)(\w+?)(_if)?")
_WRITE = re.compile(r"store_(\w+?)(_if)?")

_BODIES: dict[str, str] = {
    "bits_f16": "return half_bits_(x);",
    "low_f16": "return half_value_(word & 0xffffu);",
    "pack_f16": "return half_bits_(low) | half_bits_(high) << 16;",
    "pack_bf16": "return bfloat_bits_(low) | bfloat_bits_(high) << 16;",
    "saturated_pair_f8e4m3": "return narrow_bits_(low, 3, -6, 0x7eu, 0x7eu, 0x7fu, 8)"
    " | narrow_bits_(high, 3, -6, 0x7eu, 0x7eu, 0x7fu, 8) << 8;",
    "saturated_pair_f8e5m2": "return narrow_bits_(low, 2, -14, 0x7bu, 0x7bu, 0x7fu, 8)"
    " | narrow_bits_(high, 2, -14, 0x7bu, 0x7bu, 0x7fu, 8) << 8;",
    "pair_f8e4m3": "return half_of_e4m3_(word & 0xffu) | half_of_e4m3_(word >> 8 & 0xffu) << 16;",
    "exp2_approx": "return exp2f(x);",
    "log2_approx": "return log2f(x);",
    "tanh_approx": "return tanhf(x);",
    "reciprocal_approx": "return 1.0f / x;",
    "rsqrt_approx": "return (float)(1.0 / std::sqrt((double)x));",
    "sqrt_approx": "return sqrtf(x);",
    "div_approx": "return a / b;",
    "min_f32": "return a < b || a != a ? a : b;",
    "max_f32": "return a > b || a != a ? a : b;",
    "atomic_add_f16": "unsigned short* place = (unsigned short*)address; const unsigned before = *place;"
    " *place = (unsigned short)half_bits_(half_value_(before) + value); return half_value_(before);",
    "atomic_add_bf16": "unsigned short* place = (unsigned short*)address; const unsigned before = *place;"
    " const float old = __uint_as_float(before << 16);"
    " *place = (unsigned short)bfloat_bits_(old + value); return old;",
    "commit_copies": "commit_();",
    "wait_for_copies": "wait_(0);",
    "cluster_rank": "return fiber_->block;",
    "cluster_begin": "cluster_arrive_();",
    "cluster_arrive": "cluster_arrive_();",
    "cluster_wait": "cluster_wait_();",
    "begin_arrivals": "for (int i = 0; i < 2; ++i)"
    " *(Barrier*)pointer_(shared_address(barriers) + 8 * i, 8) = new_barrier_(1);",
    "expect_bytes": "expect_bytes_(barrier, bytes);",
    "wait_for_bytes": "wait_for_bytes_(barrier, parity);",
    "wait_for_earlier": "",
    "let_next_begin": "",
    "elect_lane": "return lane_() == 0;",
    "begin_mbarriers": "begin_mbarriers_(barriers, count, arrivals);",
    "end_mbarriers": "end_mbarriers_(barriers, count);",
    "arrive": "arrive_(barrier, fiber_->block);",
    "arrive_at": "arrive_(barrier, block);",
    "arrive_at_cluster": "arrive_(barrier, block);",
    "wait_for_phase": "wait_for_bytes_(barrier, parity);",
    "wait_for_phase_cluster": "wait_for_bytes_(barrier, parity);",
    "fence_shared_proxies": "",
    "fence_global_proxies": "",
    "prefetch_tensor_map": "",
    "bulk_commit": "commit_(fiber_->bulk_open, fiber_->bulk_groups);",
    "wgmma_fence": "",
    "computed_first": "",
    "wgmma_commit": "commit_(fiber_->products_open, fiber_->product_groups);",
    "matrix_descriptor": "return fixed | (address >> 4);",
    "round_to_tf32": "return (__float_as_uint(x) + 0x1000u) & 0xffffe000u;",
}
"""What the functions that hold inline PTX mean, by name; others are made by `_body`."""


def compile_on_host(source: CudaSource, folder: Path) -> ctypes.CDLL:
    """The program as a library, with a function `launch_...` for each kernel. Needs `host_compiler()`."""
    text, library = folder / "program.cpp", folder / "program.so"
    text.write_text(host_text(source), encoding="utf-8")
    compiler = host_compiler()
    assert compiler is not None
    header = _compiled_header(compiler)
    files = ["-include", str(header), "-o", str(library), str(text), str(header.with_suffix(".o"))]
    subprocess.run([compiler, *OPTIONS, "-shared", *files], check=True)
    return ctypes.CDLL(str(library))


OPTIONS = ("-std=c++17", "-O1", "-w", "-fPIC", "-ffp-contract=off", "-fno-strict-aliasing")


@cache
def _compiled_header(compiler: str) -> Path:
    """What all programs begin with, and beside it what runs them: compiled once for each process, since they take
    longer than the rest of any program."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    header = Path(folder.name) / "on_host.h"
    header.write_text("\n".join(one.read_text(encoding="utf-8") for one in HEADERS), encoding="utf-8")
    subprocess.run([compiler, *OPTIONS, "-x", "c++-header", "-o", f"{header}.gch", str(header)], check=True)
    runtime = ["-x", "c++", "-D", "ON_HOST_RUNTIME", "-c", "-o", str(header.with_suffix(".o")), str(header)]
    subprocess.run([compiler, *OPTIONS, *runtime], check=True)
    return header


def host_compiler() -> str | None:
    """A C++ compiler, if there is one."""
    return shutil.which("g++") or shutil.which("clang++")


def host_text(source: CudaSource) -> str:
    """The program as C++, behind the headers."""
    text = _FUNCTION.sub(lambda found: f"static inline {_host_function(found[1])}", source.text)
    declared = "extern __shared__ __align__(1024) unsigned char shared_memory[];"
    text = text.replace(declared, "unsigned char* const shared_memory = ::block_().shared;")
    launches = [_launch(found[1], found[2]) for found in _KERNEL.finditer(text)]
    return "\n".join([text, *launches])


def _host_function(text: str) -> str:
    if "asm" not in text:
        return text
    head, _, _ = text.partition("{")
    name = re.search(r"(\w+)\(", head)
    assert name is not None
    return f"{head}{{ {_body(name[1], head)} }}"


def _body(name: str, head: str) -> str:
    """The meaning of a function that is an instruction."""
    if name in _BODIES:
        return _BODIES[name]
    if found := re.fullmatch(r"copy_(\d+)(?:_alone)?(_if)?", name):
        return f"copy_(to, from, {found[1]}, {'inside' if found[2] else 'true'});"
    if found := re.fullmatch(r"wait_for_copies_but_(\d+)", name):
        return f"wait_({found[1]});"
    if found := re.fullmatch(_MATRICES, name):
        order = "to, row" if found[1] == "read" else "row, from"
        return f"{found[1]}_matrices_({order}, {found[2]}, {'true' if found[3] else 'false'});"
    found = _async_body(name)
    if found is not None:
        return found
    if name.startswith("send_to_peer_"):
        return "send_to_peer_(place, barrier, peer, value);"
    if name.startswith("mma_"):
        return _product(name.removeprefix("mma_"))
    if found := re.fullmatch(_READ, name):
        return _read(found[1], bool(found[2]), head)
    found = re.fullmatch(_WRITE, name)
    assert found is not None, f"{name} has no meaning on the host"
    return _write(found[1], bool(found[2]), head)


def _async_body(name: str) -> str | None:
    """That of TMA, products by warpgroups, and of what waits for them; None for another function."""
    if re.fullmatch(r"have_\d+_registers|(written|landed)_\w+", name):
        return ""
    if found := re.fullmatch(r"(sync|arrive)_barrier_(\d+)_of_(\d+)", name):
        return f"named_barrier_({found[2]}, {found[3]}, {'true' if found[1] == 'sync' else 'false'});"
    if found := re.fullmatch(r"tma_load_(\d)(_to_all)?", name):
        starts = ", ".join(f"c{i}" for i in range(int(found[1])))
        return f"tma_load_(to, map, barrier, {'blocks' if found[2] else '1u << fiber_->block'}, {starts});"
    if name == "send_to_block":
        return "send_to_block_(to, from, bytes, barrier, block);"
    if found := re.fullmatch(r"tma_store_(\d)", name):
        return f"tma_store_(map, from, {', '.join(f'c{i}' for i in range(int(found[1])))});"
    if found := re.fullmatch(r"bulk_wait(?:_read)?(?:_but_(\d+))?", name):
        return f"finish_(fiber_->bulk_groups, {found[1] or 0});"
    if found := re.fullmatch(r"wgmma_wait(?:_but_(\d+))?", name):
        return f"wgmma_wait_({found[1] or 0});"
    if found := re.fullmatch(r"wgmma_(m\w+?)(_from_registers|_mn_major)?(_by_mn_major)?(_anew|_if)?", name):
        instruction = warpgroup_instruction(found[1])
        assert instruction is not None
        operand = found[1].split("_")[1]
        product = f'Product{{{instruction.n}, {instruction.k}, {instruction.a.bytes}, "{operand}"}}'
        half = "true" if instruction.accumulator.name == "f16" else "false"
        onto = {"_anew": "false", "_if": "onto", None: "true"}[found[4]]
        mn_major = ["true" if word in (found[2], found[3]) else "false" for word in ("_mn_major", "_by_mn_major")]
        return f"wgmma_({product}, acc, {half}, a, {mn_major[0]}, b, {mn_major[1]}, {onto});"
    return None


def _read(what: str, conditional: bool, head: str) -> str:
    if what.startswith("bits"):
        read = f"*(const uint{what[4:]}_t*)from"
        return f"if (!inside) return fill; return {read};" if conditional else f"return {read};"
    type_ = re.search(r"\((.*?)\* to", head)
    assert type_ is not None
    count = int(what[-1]) if what[-1].isdigit() else 1
    every = f"for (int i = 0; i < {count}; ++i) to[i] ="
    checked = f"check_aligned_(from, {count} * sizeof({type_[1]})); {every} ((const {type_[1]}*)from)[i];"
    return f"if (inside) {{ {checked} }} else {every} fill;" if conditional else checked


def _write(what: str, conditional: bool, head: str) -> str:
    condition = "if (!inside) return; " if conditional else ""
    if what.startswith("bits"):
        return f"{condition}*(uint{what[4:]}_t*)to = (uint{what[4:]}_t)bits;"
    type_ = re.search(r", const (.*?)\* from", head)
    assert type_ is not None
    count = int(what[-1]) if what[-1].isdigit() else 1
    every = f"for (int i = 0; i < {count}; ++i) (({type_[1]}*)to)[i] = from[i];"
    return f"{condition}check_aligned_(to, {count} * sizeof({type_[1]})); {every}"


def _product(name: str) -> str:
    """A matrix instruction: lanes show each other their registers, and each adds up what it has of the result."""
    instruction = INSTRUCTIONS[name]
    a, b, acc = instruction.a, instruction.b, instruction.accumulator
    assert a is not None
    assert b is not None
    assert acc is not None
    fragments = (instruction.a_fragment, instruction.b_fragment, instruction.accumulator_fragment)
    tables = [f"static const int {n}[{rows}][{columns}][2] = {_places(fragment, rows, columns)};"
              for n, fragment, rows, columns in (("a_at", fragments[0], instruction.m, instruction.k),
                                                 ("b_at", fragments[1], instruction.k, instruction.n))]  # fmt: skip
    words = [max(1, fragment.slots * dtype.bits // (64 if dtype.bits == 64 else 32))
             for fragment, dtype in zip(fragments[:2], (a, b))]  # fmt: skip
    row, column = (", ".join("{" + ", ".join(map(str, line)) + "}" for line in axis) for axis in
                   (fragments[2].table[0].tolist(), fragments[2].table[1].tolist()))  # fmt: skip
    slots = fragments[2].slots
    wide = "double" if acc.name == "f64" else "int" if acc.is_integer else "float"
    shown = "round_to_tf32({})" if a.name == "f32" else "as_word({})"
    left = _element("warp.words[at[0]]", "at[1]", a.name)
    right = _element("(warp.words[of[0]] + 4)", "of[1]", b.name)
    target, before, after = "acc[s]", "", ""
    if acc.name == "f16":
        target = "wide[s]"
        before = "float wide[4]; for (int s = 0; s < 4; ++s) wide[s] = half_value_(acc[s / 2] >> s % 2 * 16 & 0xffffu);"
        after = "for (int i = 0; i < 2; ++i) acc[i] = half_bits_(wide[2 * i]) | half_bits_(wide[2 * i + 1]) << 16;"
    return f"""
    {" ".join(tables)}
    static const int rows[32][{slots}] = {{{row}}}, columns[32][{slots}] = {{{column}}};
    Warp& warp = warp_();
    for (int i = 0; i < {words[0]}; ++i) warp.words[lane_()][i] = {shown.format("a[i]")};
    for (int i = 0; i < {words[1]}; ++i) warp.words[lane_()][4 + i] = {shown.format("b[i]")};
    meet_warp();
    {before}
    for (int s = 0; s < {slots}; ++s) {{
        {wide} total = {target};
        for (int k = 0; k < {instruction.k}; ++k) {{
            const int* at = a_at[rows[lane_()][s]][k];
            const int* of = b_at[k][columns[lane_()][s]];
            total += ({wide}){left} * ({wide}){right};
        }}
        {target} = total;
    }}
    {after}
    meet_warp();
"""


def _places(fragment: RegisterLayout, rows: int, columns: int) -> str:
    """For each element of a fragment, a lane and a slot that hold it."""
    lines: list[str] = []
    for row in range(rows):
        cells = [fragment.place((row, column)) for column in range(columns)]
        lines.append("{" + ", ".join(f"{{{lane}, {slot}}}" for lane, slot in cells) + "}")
    return "{" + ", ".join(lines) + "}"


def _element(words: str, slot: str, dtype: str) -> str:
    """An element of a fragment as a number."""
    bits = BY_NAME[dtype].bits
    if bits >= 32:
        return f"word_as<{'double' if bits == 64 else 'float'}>({words}[{slot}])"
    word = f"((unsigned){words}[{slot} / {32 // bits}] >> {slot} % {32 // bits} * {bits} & {(1 << bits) - 1:#x}u)"
    return {
        "f16": f"half_value_({word})",
        "bf16": f"__uint_as_float({word} << 16)",
        "f8e4m3": f"e4m3_value_({word})",
        "f8e5m2": f"half_value_({word} << 8)",
        "i8": f"(signed char){word}",
        "u8": word,
    }[dtype]


def _launch(name: str, parameters: str) -> str:
    """A C function that launches a kernel with the words of its parameters."""
    values: list[str] = []
    for number, parameter in enumerate(p.strip() for p in parameters.split(",") if p.strip()):
        type_ = parameter.rpartition(" ")[0].replace("__restrict__", "").strip()
        if type_.endswith("TensorMap"):
            values.append(f"*(const TensorMap*)words[{number}]")
            continue
        values.append(f"word_as<double>(words[{number}])" if type_ == "double" else f"({type_})words[{number}]")
    return f"""extern "C" void launch_{name}(
    long long grid, unsigned threads, unsigned cluster, unsigned shared, const unsigned long long* words) {{
    run_(grid, threads, cluster, shared, [=] {{ {name}({", ".join(values)}); }});
}}
"""


def run_on_host(
    source: CudaSource, function: Function, arguments: Sequence[Argument], folder: Path
) -> tuple[Array, ...]:
    """Runs the kernels of a program one after the other; the tensors that it gives back. Arrays are written to."""
    library = compile_on_host(source, folder)
    sizes, values = bind_arguments(function, arguments)
    tensors = {p: v for p, v in zip(function.parameters, values) if isinstance(p.type, TensorType)}
    scalars = [v for p, v in zip(function.parameters, values) if isinstance(p.type, TileType)]
    for op in function.body.ops:
        if isinstance(op, Empty):
            tensors[op.result] = new_tensor(tuple(evaluate(dim, sizes) for dim in op.shape), to_numpy(op.dtype))
    record = np.zeros(2, np.int64)
    maps = [_tensor_map(code, list(tensors.values())[code.tensor], sizes) for code in source.maps]
    arrays = list(tensors.values())
    for kernel in source.kernels:
        words = [_word(parameter, arrays, sizes, scalars, record, maps) for parameter in kernel.parameters]
        _call(library, kernel, _grid(kernel, sizes), words)
    if record[0]:
        raise AssertionError(f"assertion {record[0]} failed in program {record[1]}")
    returned = function.body.ops[-1]
    assert isinstance(returned, Return)
    return tuple(tensors[value] for value in returned.values)


def new_tensor(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An array of no known values, aligned to 256 bytes as memory of a GPU is."""
    count = int(np.prod(shape, dtype=np.int64))
    room = np.full(count * dtype.itemsize + 256, 0xAA, np.uint8)
    start = -room.ctypes.data % 256
    flat: Any = room[start : start + count * dtype.itemsize]
    return np.reshape(flat.view(dtype), shape)


def aligned(array: Array) -> Array:
    """A copy of an array with the same strides' order, as the memory of a GPU is aligned."""
    copy = new_tensor(array.shape, array.dtype)
    copy[...] = array
    return copy


def _tensor_map(code: TensorMapCode, tensor: Any, sizes: dict[str, int]) -> Array:
    """A tensor map as `async_on_host.h` has it, of what the driver would be asked for."""
    strides: list[tuple[int, ...]] = [()] * code.tensor + [tuple(s // tensor.itemsize for s in tensor.strides)]
    with fake_driver() as driver:
        LaunchedMap(code, sizes, strides, "host").encoded(int(tensor.ctypes.data))
        asked = driver.maps[-1]
    words = [asked.address, asked.rank, *_filled(asked.sizes, 5), *_filled(asked.strides, 4)]
    made = new_tensor((128,), np.dtype(np.uint8))
    packed = struct.pack("<11Q7H", *words, *_filled(asked.box, 5), code.swizzle, tensor.itemsize)
    made[: len(packed)] = np.frombuffer(packed, np.uint8)
    return made


def _filled(values: Sequence[int], count: int) -> list[int]:
    return [*values, *[0] * (count - len(values))]


def _grid(kernel: KernelCode, sizes: dict[str, int]) -> int:
    programs = 3 if kernel.programs is None else evaluate(kernel.programs, sizes)
    return programs * kernel.cluster


def _word(
    parameter: KernelParameter,
    arrays: Sequence[Array],
    sizes: dict[str, int],
    scalars: Sequence[Array],
    record: Array,
    maps: Sequence[Array],
) -> int:
    match parameter.kind:
        case "map":
            encoded: Any = maps[parameter.index]
            return int(encoded.ctypes.data)
        case "tensor":
            pointed: Any = arrays[parameter.index]
            return int(pointed.ctypes.data)
        case "size":
            return sizes[parameter.symbol]
        case "stride":
            array: Any = arrays[parameter.index]
            return array.strides[parameter.axis] // array.itemsize
        case "scalar":
            value: Any = scalars[parameter.index]
            if value.dtype.kind in "biu":
                return int(value)
            return int.from_bytes(struct.pack("<d", float(value)), "little")
        case _:
            return int(record.ctypes.data)


def _call(library: ctypes.CDLL, kernel: KernelCode, grid: int, words: Sequence[int]) -> None:
    packed = (ctypes.c_uint64 * max(1, len(words)))(*(word & (1 << 64) - 1 for word in words))
    if grid > 0:
        library[f"launch_{function_of(kernel.name)}"](
            ctypes.c_int64(grid), kernel.threads, kernel.cluster, kernel.shared_bytes, packed
        )
