"""Tests that need an NVIDIA device: `pytest -m gpu`. Without one they are skipped, as `tests/conftest.py` says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.gpu_code.cuda_arrays import Framework, any_framework

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ours = [item for item in items if HERE in item.path.parents]
    for item in ours:
        item.add_marker(pytest.mark.gpu)
    if ours and (reason := why_not()):
        for item in ours:
            item.add_marker(pytest.mark.skip(reason=reason))


def why_not() -> str:
    """Why there is no device to test on; empty if there is one."""
    found = any_framework()
    return f"no CUDA device ({found})" if isinstance(found, str) else ""


@pytest.fixture
def cuda() -> Framework:
    """A framework for arrays on the device."""
    found = any_framework()
    assert isinstance(found, Framework)
    return found
