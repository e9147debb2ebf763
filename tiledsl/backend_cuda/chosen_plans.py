"""Which plan was chosen for a launch of a graph, on disk: choosing takes longer than reading the code made by it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from tiledsl.backend_cuda.build.stored_variant import plan_from_json, plan_to_json
from tiledsl.passes.gpu.plan import Plan
from tiledsl.passes.gpu.plans.plans_on_demand import PlansOnDemand
from tiledsl.runtime.programs.cache import DiskCache, compiler_identity, digest
from tiledsl.support.options import LOG


def read_or_choose(
    disk: DiskCache | None,
    program: str,
    arch: str,
    call: tuple[Mapping[str, int], Sequence[int], Sequence[int]],
    choose: Callable[[], PlansOnDemand],
) -> PlansOnDemand:
    """What `choose` gives; the best plan from the disk if it was chosen before. `program`: its text; `call`: the sizes
    of a call, and how its tensors are aligned and lie."""
    if disk is None:
        return choose()
    sizes, alignment, lying = call
    question = json.dumps([sorted(sizes.items()), list(alignment), list(lying)])
    entry = digest([compiler_identity(), arch, "plan", question, program])
    best = _read(disk, entry)
    if best is not None:
        return PlansOnDemand(best, choose)
    plans = choose()
    disk.put(entry, json.dumps(plan_to_json(plans[0])).encode())
    return plans


def _read(disk: DiskCache, entry: str) -> Plan | None:
    content = disk.get(entry)
    if content is None:
        return None
    try:
        return plan_from_json(json.loads(content))
    except (ValueError, KeyError, TypeError) as error:
        LOG.warning("cache entry %s cannot be read (%s); it is made anew", entry, error)
        disk.drop(entry)
        return None
