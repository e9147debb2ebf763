"""Modules that are not installed for development have stubs in `typings/`: types are checked alike everywhere."""

from __future__ import annotations

import ast
import re
import sys
from importlib.metadata import packages_distributions, requires
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("tiledsl", "tests", "examples", "benchmarks", "website")
OWN = {*FOLDERS, *(file.stem for file in (ROOT / "examples").rglob("*.py"))}


def imported() -> dict[str, Path]:
    """Every module that an import names, and where."""
    found: dict[str, Path] = {}
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    found.update((alias.name, file) for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    found[node.module] = file
    return found


def of_distribution(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def required() -> set[str]:
    """The distributions that this one asks for, with all of its extras."""
    return {of_distribution(re.split(r"[\s<>=!;\[(~]", text)[0]) for text in requires("tiledsl") or ()}


def test_modules_that_may_be_absent_have_stubs() -> None:
    providers = packages_distributions()
    absent: list[str] = []
    for module, file in imported().items():
        top = module.partition(".")[0]
        if top in OWN or top in sys.stdlib_module_names:
            continue
        if any(of_distribution(name) in required() for name in providers.get(top, ())):
            continue
        stub = ROOT / "typings" / module.replace(".", "/")
        if not (stub.with_suffix(".pyi").is_file() or (stub / "__init__.pyi").is_file()):
            absent.append(f"{module} in {file.relative_to(ROOT)}")
    assert absent == []
