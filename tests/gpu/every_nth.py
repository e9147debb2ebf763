"""A plugin of pytest: `-p tests.gpu.every_nth --every 4` runs every fourth of the tests that would be run."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--every", type=int, default=1, help="run every so many-th test only")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    step = int(config.getoption("--every") or 1)
    left_out = [item for number, item in enumerate(items) if number % step]
    if left_out:
        items[:] = items[::step]
        config.hook.pytest_deselected(items=left_out)
