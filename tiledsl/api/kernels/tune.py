"""`tiledsl.tune`: searches for all that can be tuned, by one name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tiledsl.api.kernels.kernel import Kernel
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import TileError, fail

if TYPE_CHECKING:
    from tiledsl.api.calls.tuning import TuneReport
    from tiledsl.autotune.measuring.host import Fleet
    from tiledsl.autotune.searching.search import Listener


def tune(
    target: object,
    /,
    *args: object,
    seconds: float = 60.0,
    trials: int = 20,
    database: str | Path | None = None,
    listener: Listener | None = None,
    arch: str | None = None,
    fleet: Fleet | None = None,
    libraries: bool = False,
    **named: object,
) -> TuneReport:
    """Measures plans for all that `target` launches, and keeps what it finds: docs/search.md.

    `target`: a kernel or formula, with the arguments of a call; or a graph, a fused or a built one, with the sizes that
    it leaves open (`batch=8`), for the CPU, or for `arch` on the first CUDA device. `seconds`: for all of it; of each
    program at most `trials` plans are measured beside the model's pick. Modules that are built later take what was
    found, those that there are do not. `listener`: is told how it goes on. `fleet`: who measures a graph's programs,
    some at once (`autotune/measuring/ray_host.py`); default: processes on this machine. `libraries`: whether calls of
    cuBLASLt are tried too on GPUs, where a program is one product (`pip install tiledsl[library]`). Raises TileError.
    """
    from tiledsl.api.calls.tuning import TuneRequest  # costs start-up time, as all of it
    from tiledsl.api.graphs.fused import BuiltGraph, FusedGraph
    from tiledsl.api.graphs.graph import Graph
    from tiledsl.api.graphs.tune_graph import fused_of, tune_graph
    from tiledsl.autotune.searching.search import Silent

    try:
        if isinstance(target, Kernel):
            return target.tune(
                *args, seconds=seconds, trials=trials, database=database, listener=listener,
                libraries=libraries, **named,
            )  # fmt: skip
        if isinstance(target, Graph):
            target = FusedGraph(target)
        if args or not isinstance(target, (FusedGraph, BuiltGraph)):
            fail("tuning-nothing", caller_location(), kind=type(target).__name__)
        fused, built_for, sizes = fused_of(target)
        sizes.update({name: size for name, size in named.items() if isinstance(size, int)})
        return tune_graph(
            fused,
            arch or built_for or "cpu",
            sizes,
            TuneRequest(seconds, trials, database, listener or Silent(), fleet, libraries),
        )
    except TileError as error:
        raise error.with_traceback(None) from error.__cause__  # the user's lines, not the compiler's
