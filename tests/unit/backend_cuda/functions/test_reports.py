"""The statements behind `tile.print` and `tile.assert_`."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest

from tests.support.gpu_code.device_functions import host_compiler
from tiledsl.backend_cuda.functions.preamble import Preamble
from tiledsl.backend_cuda.functions.reports import assertion, print_element, print_scalars
from tiledsl.ir.dtypes import ALL, bf16, bool_, f16, f32, f64, i8, i64, u8, u64

needs_compiler = pytest.mark.skipif(host_compiler() is None, reason="no C compiler: generated C was not run")


def printed(statement: str, folder: Path) -> str:
    """What a statement prints when the host runs it."""
    program = f"#include <stdio.h>\n#include <stdbool.h>\nint main(void) {{ {statement} return 0; }}\n"
    compiler, path = host_compiler(), folder / "program"
    assert compiler is not None
    options = ["-x", "c", "-std=gnu11", "-Wall", "-Werror", "-trigraphs"]
    subprocess.run([compiler, *options, "-", "-o", str(path)], input=program.encode(), check=True)
    return subprocess.run([str(path)], check=True, capture_output=True).stdout.decode()


@needs_compiler
def test_scalars_are_one_line(tmp_path: Path) -> None:
    values = [
        ("0.1f", f32), ("0.1", f64), ("0.0999755859f", f16), ("0.100097656f", bf16), ("-3", i8), ("200u", u8),
        ("-9000000000ll", i64), ("18446744073709551615ull", u64), ("true", bool_), ("1 < 0", bool_),
    ]  # fmt: skip
    line = printed(print_scalars("x", values), tmp_path)
    assert line == "x 0.1 0.1 0.09998 0.1 -3 200 -9000000000 18446744073709551615 True False\n"


@needs_compiler
def test_texts_are_printed_as_they_are(tmp_path: Path) -> None:
    text = 'a "quoted" 100% \\n ??/ é\t1'
    assert printed(print_scalars(text, []), tmp_path) == text + "\n"


@needs_compiler
def test_an_element_tells_its_place(tmp_path: Path) -> None:
    assert printed(print_element("x", ["1 + 2", "5ll"], "0.25f", f32), tmp_path) == "x [3, 5] 0.25\n"
    assert printed(print_element("", ["0"], "7", i8), tmp_path) == "[0] 7\n"


def test_every_dtype_can_be_printed() -> None:
    for dtype in ALL:
        assert print_scalars("", [("x", dtype)]).startswith('printf("%')


def test_assertion() -> None:
    preamble = Preamble()
    assert assertion("a < b", "failure", 3, "program", preamble) == ("if (!(a < b)) tiledsl_fail(failure, 3, program);")
    assert "atomicCAS" in preamble.text()


@needs_compiler
def test_the_first_failure_is_kept(tmp_path: Path) -> None:
    preamble = Preamble()
    statements = [
        assertion(c, "record", n, str(10 * n), preamble) for n, c in ((1, "true"), (2, "x > 1"), (3, "false"))
    ]
    text = (
        "#include <stdbool.h>\n"
        "#define __threadfence_system() __sync_synchronize()\n"
        "#define atomicCAS(place, expected, wanted) __sync_val_compare_and_swap(place, expected, wanted)\n"
        + preamble.text().replace("__device__ __forceinline__", "static inline")
        + f"void run(void *record, int x) {{ {' '.join(statements)} }}\n"
    )
    compiler = host_compiler()
    assert compiler is not None
    library = tmp_path / "fail.so"
    subprocess.run([compiler, "-x", "c", "-shared", "-fPIC", "-", "-o", str(library)], input=text.encode(), check=True)
    for x, first in ((0, (2, 20)), (5, (3, 30))):
        record = (ctypes.c_uint64 * 2)()
        ctypes.CDLL(str(library)).run(record, x)
        assert tuple(record) == first
