"""Tests that need an NVIDIA device: `pytest -m gpu`. Without one they are skipped, and the summary says so aloud."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cuda_arrays import Framework, any_framework

HERE = Path(__file__).parent
_skipped = pytest.StashKey[int]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    ours = [item for item in items if HERE in item.path.parents]
    for item in ours:
        item.add_marker(pytest.mark.gpu)
    if ours and (reason := why_not()):
        for item in ours:
            item.add_marker(pytest.mark.skip(reason=reason))
        config.stash[_skipped] = len(ours)


def why_not() -> str:
    """Why there is no device to test on; empty if there is one."""
    found = any_framework()
    return f"no CUDA device ({found})" if isinstance(found, str) else ""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if skipped := config.stash.get(_skipped, 0):
        terminalreporter.section("GPU", yellow=True)
        terminalreporter.line(f"{skipped} GPU tests did not run: {why_not()}", yellow=True)


@pytest.fixture
def cuda() -> Framework:
    """A framework for arrays on the device."""
    found = any_framework()
    assert isinstance(found, Framework)
    return found
