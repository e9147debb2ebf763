"""The environment."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tiledsl.support.errors import TileRuntimeError
from tiledsl.support.options import LOG, checks_calls, configure_log, read_options

VARIABLES = [name for name in os.environ if name.startswith("TILEDSL_")]


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*VARIABLES, "TILEDSL_CACHE_DIR", "XDG_CACHE_HOME"]:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.skipif(sys.platform != "linux", reason="other platforms keep caches elsewhere")
def test_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    options = read_options()
    assert options.cache_directory == Path("/home/someone/.cache/tiledsl")
    assert options.cache_bytes == 256 << 20
    assert options.threads is None
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert read_options().cache_directory == Path("/elsewhere/tiledsl")


def test_everything_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEDSL_CACHE_DIR", "/somewhere")
    monkeypatch.setenv("TILEDSL_CACHE_SIZE_MB", "3")
    monkeypatch.setenv("TILEDSL_NUM_THREADS", " 2 ")
    options = read_options()
    assert (options.cache_directory, options.cache_bytes, options.threads) == (Path("/somewhere"), 3 << 20, 2)
    monkeypatch.setenv("TILEDSL_DISABLE_CACHE", "1")
    assert read_options().cache_directory is None
    monkeypatch.setenv("TILEDSL_DISABLE_CACHE", "0")
    assert read_options().cache_directory is not None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TILEDSL_NUM_THREADS", "0"),
        ("TILEDSL_NUM_THREADS", "-1"),
        ("TILEDSL_CACHE_SIZE_MB", "much"),
        ("TILEDSL_DISABLE_CACHE", "yes please"),
    ],
)
def test_values_that_make_no_sense(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(TileRuntimeError, match=f"{name} is '{value}'"):
        read_options()


def test_log_level_that_makes_no_sense(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEDSL_LOG", "loud")
    with pytest.raises(TileRuntimeError, match="one of debug, info"):
        configure_log()


def test_log_goes_to_standard_error() -> None:
    program = "import tiledsl, logging; logging.getLogger('tiledsl').info('compiled')"
    environment = {**os.environ, "TILEDSL_LOG": "info"}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert run.stderr == "tiledsl: compiled\n"
    assert LOG is logging.getLogger("tiledsl")


@pytest.mark.parametrize(("value", "expected"), [("", False), ("0", False), ("1", True)])
def test_checking(monkeypatch: pytest.MonkeyPatch, value: str, expected: bool) -> None:
    monkeypatch.setenv("TILEDSL_CHECK", value)
    assert checks_calls() is expected
    assert read_options().checking is expected


def test_where_measured_plans_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEDSL_CACHE_DIR", "/somewhere")
    assert read_options().tuning_directory == Path("/somewhere/tuning")
    monkeypatch.setenv("TILEDSL_TUNING", "/elsewhere")
    assert read_options().tuning_directory == Path("/elsewhere")
    monkeypatch.setenv("TILEDSL_DISABLE_CACHE", "1")
    assert read_options().tuning_directory == Path("/elsewhere")
    monkeypatch.setenv("TILEDSL_TUNING", "Off")
    assert read_options().tuning_directory is None
    monkeypatch.delenv("TILEDSL_TUNING")
    assert read_options().tuning_directory is None
