"""The table of operators for the documentation, made from the register."""

from __future__ import annotations

from tiledsl.importers.torch import operators
from tiledsl.importers.torch.register import OPERATORS


def operator_table() -> str:
    """A row for each family: what its module says of it, and its operators."""
    families: dict[str, set[str]] = {name: set() for name in operators.__all__}
    for key, formula in OPERATORS.items():
        family = formula.__module__.rpartition(".")[2]
        families[family].add(key.partition(".")[0])
    lines = ["| family | operators |", "| --- | --- |"]
    for family, names in families.items():
        module = getattr(operators, family)
        title = str(module.__doc__).splitlines()[0].rstrip(".")
        lines.append(f"| {title} | {', '.join(f'`{name}`' for name in sorted(names))} |")
    return "\n".join(lines)
