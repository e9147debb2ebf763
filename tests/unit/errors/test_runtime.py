"""One case for each message of `support/catalogue/runtime.py`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.bound_programs import compiled_text
from tests.support.kernels.call_kernels import (
    accumulate,
    add,
    both,
    gemm,
    inner_total,
    power,
    scale,
    shorter,
    sum_and_difference,
)
from tiledsl import tile
from tiledsl.autotune.records.database import Database
from tiledsl.backend_cuda.build.disassemble import disassembly
from tiledsl.cli.arguments import parse_constant, parse_size, parse_spec
from tiledsl.cli.audit_file import Arguments, audit_names
from tiledsl.cli.bench_cases import cases_of, need_device, with_batch
from tiledsl.cli.bench_runs import runners
from tiledsl.cli.commands.check import refuse_arch, refuse_saved
from tiledsl.cli.commands.compile import emitted
from tiledsl.cli.commands.database import write_page
from tiledsl.cli.commands.new import written
from tiledsl.cli.commands.profile import check_place, device_arch
from tiledsl.cli.draw import draw_for_specs
from tiledsl.cli.load_model import TorchModel, load_target, need, torch_arguments
from tiledsl.cli.main import make_parser
from tiledsl.cli.parser import parse
from tiledsl.cli.python_files import load_kernel, split_target
from tiledsl.support.catalogue.runtime import ENTRIES
from tiledsl.support.errors import TileError, fail
from tiledsl.support.options import read_options

F32 = np.float32
V = tile.spec(("N",), tile.f32)
M = tile.spec((None, None), tile.f32)


class OnDevice:
    """An array that lives on another kind of GPU."""

    def __dlpack__(self) -> object: ...

    def __dlpack_device__(self) -> tuple[int, int]:
        return 8, 0


def without_a_driver() -> None:
    def absent() -> None:
        fail("cuda-no-driver", None, reason="libcuda.so.1 is not there")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tiledsl.api.calls.targets.cuda_services", absent)
        device_arch()


class OnCuda:
    """An array on a CUDA device, as far as anybody asks."""

    __cuda_array_interface__: dict[str, object] = {}


class Unwilling:
    """An array of another library that does not hand out its memory."""

    def __dlpack__(self) -> object:
        raise BufferError("it requires a gradient\nand more")

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def vector(size: int = 10, dtype: Any = F32) -> Any:
    return np.zeros(size, dtype)


def call(kernel: Any, *arguments: Any, specs: Any = (V, V), **named: Any) -> object:
    """Calls a kernel that was compiled for the reference executor."""
    return kernel.compile(*specs, arch="reference")(*arguments, **named)


def read_only() -> Any:
    array = vector()
    array.flags.writeable = False
    return array


def with_environment(name: str, value: str) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(name, value)
        return read_options()


def fixed_size() -> object:
    return gemm.compile(tile.spec((8, 64), tile.f32), M, arch="reference")(
        np.zeros((8, 65), F32), np.zeros((64, 8), F32)
    )


@tile.kernel
def formula(x: Any) -> Any:
    return x + 1


def new_twice() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            written("row_norm", Path(folder))


CASES: dict[str, tuple[Callable[[], object], str]] = {
    "call-missing": (lambda: add(vector()), "`add` was called without `y`"),
    "call-extra": (lambda: add(vector(), vector(), vector()), "takes at most 2 positional arguments but was given 3"),
    "call-unknown": (
        lambda: scale(vector(), factr=2.0, factor=1.0),
        "did you mean `factor=`? call it as `scale(x, factor, offset=0)`",
    ),
    "call-duplicate": (lambda: add(vector(), vector(), x=vector()), "was given `x` twice"),
    "argument-not-array": (lambda: add([1, 2], vector()), "`x` is a list"),
    "array-dtype": (lambda: add(vector(dtype=np.complex64), vector()), "`x` has dtype complex64"),
    "array-byte-order": (lambda: add(vector(dtype=">f4"), vector()), "the byte order of another machine"),
    "array-masked": (lambda: add(np.ma.masked_array([1.0]), vector()), "is a masked array"),
    "array-device": (lambda: add(OnDevice(), vector()), "`x` is a OnDevice on a Metal device"),
    "array-foreign": (lambda: add(Unwilling(), vector()), "does not share its data: it requires a gradient"),
    "scalar-range": (lambda: call(scale, vector(), 2.0, 2**63, specs=(V, float, int)), "which does not fit i64"),
    "constant-value": (lambda: power(vector(), exponent=vector()), "`exponent` is a compile-time constant"),
    "argument-specialised": (
        lambda: call(add, vector(), vector(dtype=np.float64)),
        "`y` is f64[?], but this kernel was compiled for f32[N]",
    ),
    "size-mismatch": (
        lambda: call(add, vector(10), vector(11)),
        "size `N` is 10 in `x` (axis 0) but 11 in `y` (axis 0)",
    ),
    "size-fixed": (fixed_size, "axis 1 of `a` must be 64, not 65"),
    "size-expression": (lambda: expression_error(), "axis 0 of `y` must be `2 * N` = 20, not 21 (N = 10)"),
    "size-divisible": (
        lambda: call(add, vector(17), vector(17), specs=(vector(16), vector(16))),
        "`N` is 17, but this kernel was compiled for multiples of 16",
    ),
    "size-negative": (lambda: call(shorter, vector(3), specs=(V,)), "axis 0 of the output `z` is `N - 4` = -1"),
    "part-negative": (lambda: call(inner_total, vector(1), specs=(V,)), "a negative size"),
    "out-nothing": (lambda: call(both, vector(), vector(), out=vector()), "`both` makes no output"),
    "out-count": (
        lambda: call(sum_and_difference, vector(), vector(), out=vector()),
        "`out` has 1 arrays, but `sum_and_difference` makes 2",
    ),
    "out-not-array": (lambda: call(add, vector(), vector(), out=3), "`out` is a int, not an array"),
    "out-dtype": (
        lambda: call(add, vector(), vector(), out=vector(dtype=np.float64)),
        "`out` has dtype f64, but `add` writes f32",
    ),
    "out-shape": (
        lambda: call(add, vector(), vector(), out=vector(11)),
        "`out` has shape (11,), but `add` writes shape (10,)",
    ),
    "out-read-only": (lambda: call(add, vector(), vector(), out=read_only()), "`out` is read-only"),
    "out-shared": (lambda: call(both, *(vector(),) * 2), "`x` and `y` share memory, and `both` writes to both"),
    "out-repeats": (
        lambda: call(add, vector(), vector(), out=overlapping()),
        "lie on top of each other (strides (0,))",
    ),
    "bind-overlap": (
        lambda: accumulate.compile(V, V, arch="reference").bind(*(vector(),) * 2),
        "arrays of this call overlap, or do not suit `accumulate` as they are",
    ),
    "arch-unknown": (lambda: add.compile(V, V, arch="vax"), "there is no architecture `vax`"),
    "spec-invalid": (lambda: add.compile(V, object()), "`y` is specified by a object"),
    "spec-size": (lambda: add.compile(V, tile.spec((-1,), tile.f32)), "axis 0 of the spec of `y` is -1"),
    "level-unknown": (lambda: add.compile(V, V, arch="reference").ir("gpu"), "has no IR of level `gpu`"),
    "text-unavailable": (lambda: add.compile(V, V, arch="reference").source, "has no source"),
    "disassembler-missing": (lambda: disassembly(b"no machine code"), "by nvdisasm, and"),
    "emulate-arch": (lambda: add.emulate(vector(), vector(), arch="cpu"), "there is none for `cpu`"),
    "emulate-device": (lambda: add.emulate(vector(), OnCuda()), "`y` is a OnCuda on a CUDA device"),
    "emulate-plan": (
        lambda: tile.kernel(add.__wrapped__).emulate(vector(), vector(), plan=17),
        "there is no plan 17 for this call of `add`: there are 2",
    ),
    "option-invalid": (
        lambda: with_environment("TILEDSL_NUM_THREADS", "many"),
        "the environment variable TILEDSL_NUM_THREADS is 'many'",
    ),
    "command-unknown": (lambda: parse(make_parser(), ["chek"]), "there is no command `chek`"),
    "command-option": (lambda: parse(make_parser(), ["doctor", "--jsno"]), "`tiledsl doctor` does not take `--jsno`"),
    "command-line": (
        lambda: parse(make_parser(), ["opt", "--passes"]),
        "`tiledsl opt`: argument -p/--passes: expected",
    ),
    "command-target": (lambda: split_target("gemm.py"), "`gemm.py` does not say which kernel"),
    "command-file": (lambda: load_kernel(Path("nowhere.py"), "k"), "cannot load `nowhere.py`"),
    "command-kernel": (lambda: load_kernel(Path(__file__), "CASES"), "has no kernel `CASES`"),
    "command-model": (lambda: load_target(f"{__file__}:nothing"), "has no kernel, formula, graph, module or model of"),
    "command-check-kernel": (lambda: refuse_arch("sm_90"), "is checked on the CPU, where every access to memory is"),
    "command-saved": (lambda: refuse_saved("m.tile"), "is a saved module: it has code and weights, but no formula"),
    "command-package": (
        lambda: need("no_such_package_here", "onnx", "reading `a.onnx`"),
        "reading `a.onnx` needs the package `no_such_package_here`, which is not installed",
    ),
    "command-examples": (
        lambda: torch_arguments(TorchModel("net", None), [], {}, np.random.default_rng()),
        "`net`, a model of PyTorch, does not say what it is called with",
    ),
    "command-batch": (
        lambda: with_batch("m.py:graph", ["M", "N"], {}, 8),
        "`--batch` sets the size `B`, but the sizes of `m.py:graph` are M, N",
    ),
    "command-dtype": (
        lambda: cases_of("m.py:graph", graph_of_a_sum(), [], {}, None, "f16", "cpu"),
        "`--dtype f16` was given, but `m.py:graph` has dtypes of its own",
    ),
    "command-against": (
        lambda: list(runners(cases_of("m.py:graph", graph_of_a_sum(), [], {}, None, None, "cpu"), ["eager"])),
        "`m.py:graph` cannot be run by `eager`: it is no model of PyTorch",
    ),
    "command-device": (
        lambda: need_device(SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False)), "cuda"),
        "there is no CUDA device",
    ),
    "command-page": (
        lambda: write_page(Database(Path("nowhere")), "nowhere/at/all.html"),
        "the page `nowhere/at/all.html` cannot be written: No such file",
    ),
    "command-profile-device": (
        without_a_driver,
        "there is no GPU here whose kernels could be timed",
    ),
    "command-profile-place": (
        lambda: check_place("model.tile", "cpu", "cuda"),
        "`model.tile` was built for `cpu`, and cannot be timed on `cuda`",
    ),
    "command-audit": (
        lambda: audit_names(Path("numbers.py"), {"x": 1}, Arguments(), "sm_90"),
        "nothing of `numbers.py` can be audited: it has no kernel, formula, graph or module",
    ),
    "command-spec": (lambda: parse_spec("f31[M]"), "`f31[M]` is no specification"),
    "command-new-name": (lambda: written("1st", Path()), "`1st` is no name for a kernel"),
    "command-new-exists": (lambda: new_twice(), "`row_norm.py` is there already"),
    "command-size": (lambda: parse_size("M"), "`M` does not set a size"),
    "command-size-open": (
        lambda: draw_for_specs(["f32[N]"], {}, np.random.default_rng()),
        "arguments are drawn for `f32[N]`, but it leaves open how much `N` is",
    ),
    "command-emit": (lambda: emitted(add.compile(V, V, arch="reference"), "cuda"), "`reference` has no `cuda`"),
    "command-constant": (lambda: parse_constant("BM"), "`BM` does not set a compile-time parameter"),
}


def graph_of_a_sum() -> Any:
    def doubled(x: Any) -> Any:
        return x + x

    return tiledsl.trace(doubled, tile.spec((4,), tile.f32))


def overlapping() -> Any:
    return np.lib.stride_tricks.as_strided(vector(), (10,), (0,))


def expression_error() -> object:
    """No kernel of the language can ask for such a size; IR text can."""
    text = """
    func @twice(%x: tensor<f32, [N]>, %y: tensor<f32, [2 * N]>) {
      tile.return([])
    }
    """
    return compiled_text(text)(vector(10), vector(21))


@pytest.mark.parametrize("code", list(CASES))
def test_message(code: str) -> None:
    provoke, text = CASES[code]
    with pytest.raises(TileError) as caught:
        provoke()
    error = caught.value
    assert error.code == code
    assert type(error) is ENTRIES[code].kind
    assert text in error.message or text in error.fix
    assert error.fix
    assert error.fix in str(error)


@pytest.mark.parametrize("code", [code for code in CASES if not code.startswith(("command-", "option-"))])
def test_message_is_located_at_the_call(code: str) -> None:
    provoke, _ = CASES[code]
    with pytest.raises(TileError) as caught:
        provoke()
    location = caught.value.location
    assert location is not None
    assert Path(location.file).name in ("test_runtime.py", "bound_programs.py")


def test_every_message_has_a_case() -> None:
    assert set(CASES) == set(ENTRIES)
