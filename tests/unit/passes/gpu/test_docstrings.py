"""Examples in the docstrings of GPU passes say what is so."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import tiledsl.passes.gpu
from tiledsl.passes.gpu.plan import parse_plan
from tiledsl.passes.gpu_machine import gpu_machine

MODULES = [module.name for module in pkgutil.iter_modules(tiledsl.passes.gpu.__path__)]
KNOWN = {"gpu_machine": gpu_machine, "parse_plan": parse_plan}


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    module = importlib.import_module(f"tiledsl.passes.gpu.{name}")
    assert doctest.testmod(module, extraglobs=KNOWN).failed == 0
