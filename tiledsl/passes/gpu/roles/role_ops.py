"""What loops, products and stores become in a role of a grid whose plan has roles; all else is as anywhere.

Only such grids import this: what it stands on costs start-up time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.passes.gpu.lower.lower_memory import lower_store
from tiledsl.passes.gpu.lower.lowering import Lowering
from tiledsl.passes.gpu.lower.place_blocks import Turns, define_place
from tiledsl.passes.gpu.products.parallel_products import products_of
from tiledsl.passes.gpu.products.promoted_sums import is_promoted
from tiledsl.passes.gpu.products.streamed_loads import source_load
from tiledsl.passes.gpu.roles.bulk_stores import lower_bulk_store, stores_in_bulk
from tiledsl.passes.gpu.roles.products.back_to_back_loops import lower_back_to_back
from tiledsl.passes.gpu.roles.products.back_to_back_parts import parts_of
from tiledsl.passes.gpu.roles.products.prepared_loops import company_of, lower_company
from tiledsl.passes.gpu.roles.products.promoted_products import lower_promoted_product, lower_promoted_ring
from tiledsl.passes.gpu.roles.products.split_loops import lower_split_company
from tiledsl.passes.gpu.roles.products.warpgroup_products import lower_product, lower_product_ring
from tiledsl.passes.gpu.roles.rings import FedLoop, Ring

Plain = Callable[[Callable[[Value], None], "FedLoop | None"], None]
"""Lowers a loop turn by turn: what is to be done at the start of a turn of that number, and what feeds it."""


def lower_role_range(state: Lowering, op: ops.Range, turns: Turns, plain: Plain) -> None:
    """A loop of a role whose loads come by rings, if it has any."""
    rings = state.rings.get(op.body, [])
    if state.side is not None:
        state.side.lower_loop(state, op, turns, rings)
        return
    order = rings[0].order if rings else None
    if order is not None:
        order.begin()
    _lower_ring_range(state, op, turns, rings, plain)
    if order is not None:
        order.end()


def _lower_ring_range(state: Lowering, op: ops.Range, turns: Turns, rings: Sequence[Ring], plain: Plain) -> None:
    dots = products_of(op)
    if len(rings) == 1 and dots and all(source_load(dot.a) in rings[0].feed.loads for dot in dots):
        if not any(is_promoted(dot) for dot in dots) and rings[0].stages > 1:  # two of them are looked at at once
            lower_product_ring(state, op, dots, rings[0], turns)
            return
        if len(dots) == 1:
            lower_promoted_ring(state, op, dots[0], rings[0], turns)
            return
    promoted = any(is_promoted(inner) for inner in op.body.ops if isinstance(inner, ops.Dot))
    parts = None if promoted else parts_of(op, rings)
    if parts is not None:
        lower_back_to_back(state, op, parts, turns, rings)
        return
    company = company_of(op, rings)
    if company is not None:
        lower = lower_split_company if company.is_split else lower_company
        lower(state, op, company, turns, rings)
        return
    fed = FedLoop(rings) if rings else None

    def enter(number: Value) -> None:
        define_place(state, turns.argument, turns.place(state, turns.start_of(state, number)))
        if fed is not None:
            fed.wait(state)

    plain(enter, fed)


def lower_role_dot(state: Lowering, op: ops.Dot) -> None:
    """A product by the warpgroups of the role."""
    lower = lower_promoted_product if is_promoted(op) else lower_product
    lower(state, op)


def lower_role_store(state: Lowering, op: ops.Store) -> None:
    """A store: by TMA where it can be."""
    if stores_in_bulk(state, op):
        lower_bulk_store(state, op)
    else:
        lower_store(state, op)
