"""All of the zoo, and the cases that are known to be far from their floor."""

from __future__ import annotations

from benchmarks.zoo.case import ZooCase
from benchmarks.zoo.memory import elementwise, folds, movement
from benchmarks.zoo.products import attention, products, with_work

CLIFF = 1.5
"""A predicted time over the floor that has to be listed, or to be mended."""


def cases() -> list[ZooCase]:
    """Every case, family by family."""
    return [*elementwise(), *folds(), *movement(), *products(), *with_work(), *attention()]


KNOWN: dict[str, str] = {
    "rotary embedding": "slices and a join are kernels of their own: what is joined goes to memory first",
    "join of two": "what is joined goes to memory first",
    "product, f32": "products in f32 with all digits are single multiply-adds, at 0.62 of their rate",
    "product, deep": "the long sum is not split among programs",
    "product, deep and wide": "the long sum is not split among programs",
    "attention, window of 1024": "the ranking of attention does not count the blocks that a window leaves out",
    "attention, two products of scores": "three products in a row are no kernel: the scores go to memory",
}
"""Why a case is predicted to be beyond CLIFF, or multiplies outside of tensor cores; by name."""
