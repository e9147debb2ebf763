"""What a source of plans knows of kernels that may be one, as a build asks for it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tiledsl.api.calls.plan_sources import plans_of_calls, plans_on
from tiledsl.api.calls.targets import target_of
from tiledsl.passes.gpu_machine import architecture_of
from tiledsl.passes.machine import describe_cpu, host
from tiledsl.runtime.programs.cache import digest, disk_cache
from tiledsl.runtime.programs.plan_source import PlansFor, PlanSource
from tiledsl.support.options import LOG, read_options


def measured_groupings(plans: PlanSource | None, device: str | None, arch: str) -> Mapping[str, bool]:
    """What was measured against the model's decisions, for a build: whether ops are one kernel, by near tie. `plans`:
    None: what calls ask now; `device`: as `build` has it. Raises TileError as `plans_on`."""
    source, name = plans_of_calls() if plans is None else plans, target_of(arch).name
    if source is None or name == "reference":
        return {}
    if name == "cpu":
        return _read_or_ask(PlansFor(source, describe_cpu(host()), source.mark()), name)
    asked = plans_on(source, name, device)
    return {} if asked is None else _read_or_ask(asked, architecture_of(name))


def _read_or_ask(plans: PlansFor, target: str) -> Mapping[str, bool]:
    """From the disk if the source was asked before: a build that was made before reads no database."""
    options = read_options()
    if options.cache_directory is None or not plans.mark:
        return plans.source.groupings(target, plans.device)
    disk = disk_cache(options.cache_directory, options.cache_bytes)
    entry = digest(["groupings", plans.mark, target, plans.device])
    content = disk.get(entry)
    if content is not None:
        try:
            return {str(key): bool(joined) for key, joined in json.loads(content).items()}
        except (ValueError, AttributeError) as error:
            LOG.warning("cache entry %s cannot be read (%s); it is made anew", entry, error)
            disk.drop(entry)
    found = plans.source.groupings(target, plans.device)
    disk.put(entry, json.dumps(found).encode())
    return found
