"""What the environment can set. This module alone reads `os.environ`.

| variable | meaning |
| --- | --- |
| `TILEDSL_CACHE_DIR` | where compiled kernels are kept; default: the platform's cache directory |
| `TILEDSL_CACHE_SIZE_MB` | how large that may grow before the least recently used go; default 256 |
| `TILEDSL_DISABLE_CACHE` | 1: compiled kernels are neither read from nor written to disk |
| `TILEDSL_NUM_THREADS` | threads of a kernel on a CPU; default: the CPUs this process may use |
| `TILEDSL_SYNC` | 1: waits for each kernel on a CUDA device, so that a fault names the kernel it happened in |
| `TILEDSL_OVERLAP` | 1: kernels with specialised warps may begin while others of their CUDA stream still run |
| `TILEDSL_CHECK` | 1: each call with arrays in CPU memory is checked before it is made, as by `kernel.check` |
| `TILEDSL_TUNING` | `off`, or the folder of the database of measured plans; default: `tuning` in the cache directory |
| `TILEDSL_LOG` | `debug`, `info`, `warning` or `error`: writes the log of that level to standard error |
"""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from tiledsl.support.errors import fail

LOG = logging.getLogger("tiledsl")
"""The log of the whole package: compilations and their causes at INFO, cache trouble at WARNING."""

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_DEFAULT_CACHE_MB = 256


@dataclass(frozen=True)
class Options:
    """The settings in force. `cache_directory` is None where there is nowhere to put one, or if it is switched off."""

    cache_directory: Path | None
    cache_bytes: int
    threads: int | None
    """None: as many as the process may use."""
    synchronous: bool = False
    """Whether each launch on a CUDA device is waited for."""
    checking: bool = False
    """Whether calls are checked for races and for reads of what nothing was stored to."""
    overlapping: bool = False
    """Whether kernels may begin before what stands before them on a stream is done, and wait for it themselves."""
    tuning_directory: Path | None = None
    """Where measured plans are; None where there is nowhere to keep them, or if they are switched off."""


def read_options() -> Options:
    """Reads the environment as it is now. Raises TileRuntimeError for a value that makes no sense."""
    disabled = _flag("TILEDSL_DISABLE_CACHE")
    cache = None if disabled else _cache_directory()
    return Options(
        cache_directory=cache,
        cache_bytes=(_count("TILEDSL_CACHE_SIZE_MB") or _DEFAULT_CACHE_MB) << 20,
        threads=_count("TILEDSL_NUM_THREADS"),
        synchronous=_flag("TILEDSL_SYNC"),
        checking=checks_calls(),
        overlapping=_flag("TILEDSL_OVERLAP"),
        tuning_directory=_tuning_directory(cache),
    )


def checks_calls() -> bool:
    """Whether calls are to be checked before they are made. Raises TileRuntimeError for a value that makes no sense."""
    return _flag("TILEDSL_CHECK")


def configure_log() -> None:
    """Sends the log to standard error if `TILEDSL_LOG` names a level. Raises TileRuntimeError for another word."""
    level = os.environ.get("TILEDSL_LOG", "").strip().lower()
    if not level:
        return
    if level not in _LEVELS:
        fail("option-invalid", None, name="TILEDSL_LOG", value=level, wanted="one of " + ", ".join(_LEVELS))
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    LOG.addHandler(handler)
    LOG.setLevel(_LEVELS[level])


def _flag(name: str) -> bool:
    value = os.environ.get(name, "").strip().lower()
    if value not in ("", "0", "1", "false", "true"):
        fail("option-invalid", None, name=name, value=value, wanted="0 or 1")
    return value in ("1", "true")


def _count(name: str) -> int | None:
    value = os.environ.get(name, "").strip()
    if not value:
        return None
    if not value.isdecimal() or int(value) == 0:
        fail("option-invalid", None, name=name, value=value, wanted="a whole number, at least 1")
    return int(value)


def _tuning_directory(cache: Path | None) -> Path | None:
    value = os.environ.get("TILEDSL_TUNING", "").strip()
    if value.lower() == "off":
        return None
    if value:
        return Path(value)
    return None if cache is None else cache / "tuning"


def _cache_directory() -> Path | None:
    if own := os.environ.get("TILEDSL_CACHE_DIR"):
        return Path(own)
    try:
        home = Path.home()
    except RuntimeError:  # no home directory
        return None
    match sys.platform:
        case "darwin":
            return home / "Library" / "Caches" / "tiledsl"
        case "win32":
            return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "tiledsl"
        case _:
            return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "tiledsl"
