"""Examples in the docstrings of GPU passes say what is so."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import tiledsl.passes.gpu
from tiledsl.passes.gpu.plan import parse_plan
from tiledsl.passes.gpu_machine import gpu_machine

MODULES = [m.name for m in pkgutil.walk_packages(tiledsl.passes.gpu.__path__, "tiledsl.passes.gpu.") if not m.ispkg]
KNOWN = {"gpu_machine": gpu_machine, "parse_plan": parse_plan}


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    module = importlib.import_module(name)
    assert doctest.testmod(module, extraglobs=KNOWN).failed == 0
