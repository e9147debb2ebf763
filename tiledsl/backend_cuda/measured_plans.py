"""Which plan a source had for a launch, on disk: who built before asks nothing, and reads no program.

What is kept stands under the mark of the source and the device: other measurements are asked anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tiledsl.backend_cuda.build.stored_variant import plan_from_json, plan_to_json
from tiledsl.passes.gpu.plan import Plan
from tiledsl.runtime.programs.cache import DiskCache, compiler_identity, digest
from tiledsl.runtime.programs.plan_source import PlansFor
from tiledsl.support.options import LOG


@dataclass(frozen=True)
class Choice:
    """What came of asking a source. `plan`: None: the model is to plan; `origin`: in words, for reports."""

    plan: Plan | None = None
    origin: str = ""


def read_or_ask(
    disk: DiskCache | None,
    program: Sequence[str],
    call: tuple[Mapping[str, int], Sequence[int], Sequence[int]],
    plans: PlansFor,
    ask: Callable[[], Choice],
) -> Choice:
    """What `ask` gives; from the disk if that was asked before. `program`: all that its code depends on; `call`: the
    sizes of a call, and how its tensors are aligned and lie."""
    if disk is None or not plans.mark:
        return ask()
    sizes, alignment, lying = call
    question = json.dumps([sorted(sizes.items()), list(alignment), list(lying)])
    entry = digest([compiler_identity(), "measured plan", plans.mark, plans.device, question, *program])
    found = _read(disk, entry)
    if found is None:
        found = ask()
        plan = None if found.plan is None else plan_to_json(found.plan)
        disk.put(entry, json.dumps({"plan": plan, "origin": found.origin}).encode())
    return found


def _read(disk: DiskCache, entry: str) -> Choice | None:
    content = disk.get(entry)
    if content is None:
        return None
    try:
        described = json.loads(content)
        plan = described["plan"]
        return Choice(None if plan is None else plan_from_json(plan), str(described["origin"]))
    except (ValueError, KeyError, TypeError) as error:
        LOG.warning("cache entry %s cannot be read (%s); it is made anew", entry, error)
        disk.drop(entry)
        return None
