"""Odd sizes, odd strides and every dtype on the device against the reference; and more than 2^31 elements."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from tests.support.gpu_cases.gpu_cases import Case
from tests.support.gpu_cases.gpu_shape_cases import SHAPE_CASES
from tests.support.gpu_cases.run_on_gpu import check
from tests.support.gpu_code.cuda_arrays import Framework
from transpose import transpose
from vector_add import vector_add


@pytest.mark.parametrize("case", SHAPE_CASES, ids=str)
def test_shape(case: Case, cuda: Framework) -> None:
    check(case, cuda)


def roomy_torch(bytes_: int) -> Any:
    """PyTorch, if it sees a device with that much free memory; else the test is skipped."""
    torch: Any = pytest.importorskip("torch")
    free, _ = torch.cuda.mem_get_info()
    if free < bytes_:
        pytest.skip(f"{free >> 30} GiB of device memory are free, {bytes_ >> 30} GiB needed")
    return importlib.import_module("torch")


@pytest.mark.slow
def test_more_elements_than_an_int32_counts() -> None:
    torch = roomy_torch(16 << 30)
    n = 2**31 + 17
    x = torch.randint(-60, 60, (n,), dtype=torch.int8, device="cuda")
    y = torch.randint(-60, 60, (n,), dtype=torch.int8, device="cuda")
    z = torch.full_like(x, -128)
    vector_add(x, y, out=z)
    assert torch.equal(z, x + y)


@pytest.mark.slow
def test_strides_past_an_int32() -> None:
    torch = roomy_torch(16 << 30)
    x = torch.randint(-128, 128, (2**16 + 1, 2**15 + 3), dtype=torch.int8, device="cuda")
    assert torch.equal(transpose(x), x.T)
