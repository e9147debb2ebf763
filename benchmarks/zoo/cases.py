"""All of the zoo, family by family."""

from __future__ import annotations

from benchmarks.zoo.attention import ATTENTION
from benchmarks.zoo.blocks import BLOCKS
from benchmarks.zoo.case import ZooCase
from benchmarks.zoo.convolutions import CONVOLUTIONS
from benchmarks.zoo.elementwise import ELEMENTWISE
from benchmarks.zoo.experts import EXPERTS
from benchmarks.zoo.field import FIELD
from benchmarks.zoo.folds import FOLDS, NORMS
from benchmarks.zoo.fused_products import FUSED_PRODUCTS
from benchmarks.zoo.losses import LOSSES
from benchmarks.zoo.movement import MOVEMENT
from benchmarks.zoo.neighbours import NEIGHBOURS
from benchmarks.zoo.operators import OPERATORS
from benchmarks.zoo.products import PRODUCTS
from benchmarks.zoo.quantised import QUANTISED
from benchmarks.zoo.recurrent import RECURRENT
from benchmarks.zoo.scans import SCANS
from benchmarks.zoo.serving import SERVING

CASES: tuple[ZooCase, ...] = (
    *ELEMENTWISE, *FOLDS, *NORMS, *SCANS, *MOVEMENT, *PRODUCTS, *FUSED_PRODUCTS, *QUANTISED, *ATTENTION,
    *SERVING, *CONVOLUTIONS, *OPERATORS, *RECURRENT, *EXPERTS, *BLOCKS, *LOSSES, *NEIGHBOURS,
    *FIELD,
)  # fmt: skip


def families() -> list[str]:
    """The names of the families, in order."""
    return list(dict.fromkeys(case.family for case in CASES))
