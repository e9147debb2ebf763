"""What all tests share: hypothesis settings, the option that rewrites golden files, a cache of their own."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # so that `tests.support` is found however pytest was started
    sys.path.insert(0, str(ROOT))

HEALTH = [HealthCheck.too_slow]

# The ordinary run draws the same examples each time, so that a change is judged by what it changes, not by luck.
# `pytest --hypothesis-profile=explore tests/properties` draws new ones; what it finds becomes a test or a generator.
settings.register_profile("ordinary", max_examples=20, deadline=None, derandomize=True, suppress_health_check=HEALTH)
settings.register_profile("explore", max_examples=100, deadline=None, suppress_health_check=HEALTH)
settings.register_profile("thorough", max_examples=500, deadline=None, suppress_health_check=HEALTH)
settings.load_profile("ordinary")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the expected texts of golden tests")
    parser.addoption("--guard-pages", action="store_true", help="arrays of CPU kernels end where access faults")


def pytest_configure() -> None:
    """Python's collector looks less often through what is made: modules and tests now, and what tests make."""
    gc.set_threshold(50_000, 20, 20)


def pytest_collection_finish() -> None:
    """Modules and tests stay for the whole run: the collector need not go through them again and again."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says aloud how many tests had no GPU to run on. Here, where workers of pytest-xdist report to."""
    skipped = [
        report for report in terminalreporter.stats.get("skipped", []) if "no CUDA device" in str(report.longrepr)
    ]
    if skipped:
        terminalreporter.section("GPU", yellow=True)
        reason = skipped[0].longrepr[2].removeprefix("Skipped: ")
        terminalreporter.line(f"{len(skipped)} GPU tests did not run: {reason}", yellow=True)


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be rewritten rather than compared."""
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keeps the tests out of the user's artifact cache."""
    patch = pytest.MonkeyPatch()
    patch.setenv("TILEDSL_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(autouse=True)
def unchanged_environment() -> Iterator[None]:
    """A test that leaves an option behind would change what those after it do: it fails."""
    before = _options()
    yield
    after = _options()
    for name in before.keys() | after.keys():
        if name in before:
            os.environ[name] = before[name]
        else:
            del os.environ[name]
    assert after == before, "the test leaves the environment changed"


def _options() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("TILEDSL_")}


@pytest.fixture(autouse=True, scope="session")
def guarded_memory(request: pytest.FixtureRequest) -> None:
    """With --guard-pages: who reads or writes past the end of an array on the CPU ends the process."""
    if request.config.getoption("--guard-pages"):
        from tests.support import guard_pages  # here, since it imports much that few tests need

        guard_pages.install(pytest.MonkeyPatch())
