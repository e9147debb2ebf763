"""Plans in words: what one says, and what makes two of them two.

>>> plan = parse_plan("m=4, N<=2048, 128 threads, N%16=0, aligned to 16/16")
>>> plan_words(plan, ["x", "y"])[:2]
[('sizes', 'N is at most 2048 and a multiple of 16'), ('arrays', 'rows start at multiples of 16 bytes')]
>>> plan_differences(parse_plan("m=8, N<=2048, 128 threads, N%16=0, aligned to 2/16"), plan, ["x", "y"])
['`x` is aligned to 16 bytes, not 2', 'blocks of 4 along m, not 8']
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tiledsl.passes.gpu.plan import APART, LOADING_THREADS, SCORING_THREADS, GridPlan, LibraryPlan, Plan


def plan_words(plan: Plan, tensors: Sequence[str]) -> list[tuple[str, str]]:
    """Each thing that a plan decides, by what it is about. `tensors`: names in the order of `plan.alignment`."""
    words: list[tuple[str, str]] = []
    sizes = [f"{name} is {_size(plan, name)}" for name in _sizes(plan)]
    if sizes:
        words.append(("sizes", "; ".join(sizes)))
    if plan.alignment:
        words.append(("arrays", _alignment(plan, tensors)))
    if plan.library is not None:
        words.append(("library", library_words(plan.library)))
    if plan.blocks:
        words.append(("blocks", ", ".join(f"{name} = {size}" for name, size in plan.blocks)))
    if plan.parts:
        words.append(("sums", _parts(plan)))
    if plan.turned:
        words.append(("operands", _turned(plan, tensors)))
    if plan.forwarded:
        words.append(("loops", _forwarded(plan)))
    several = len(plan.grids) > 1
    words += [(f"grid {n + 1}" if several else "grid", grid_words(grid)) for n, grid in enumerate(plan.grids)]
    return words


def library_words(call: LibraryPlan) -> str:
    """What is called instead of kernels of ours."""
    room = f" in {call.workspace} bytes of memory of its own" if call.workspace else ""
    return f"cuBLASLt {call.version}, by the algorithm {call.words}{room}"


def grid_words(grid: GridPlan) -> str:
    """The choices for one grid, those that are not the usual ones."""
    words = [f"{grid.threads} threads per block"]
    if grid.roles:
        who = f"{grid.threads} threads per block multiply ({grid.roles})"
        if grid.roles == APART:
            who = f"{grid.threads} threads per block sum, {SCORING_THREADS} more make scores"
        words = [f"{who}, {LOADING_THREADS} more load"]
    if grid.cluster > 1:
        words.append(f"clusters of {grid.cluster} blocks")
    if grid.warps != (1, 1):
        words.append(f"{grid.warps[0]} x {grid.warps[1]} warps over a matrix product")
    if grid.groups > 1:
        words.append(f"{grid.groups} groups of warps share each loop")
    if grid.stages > 1:
        words.append(f"up to {grid.stages} stages")
    if grid.across > 1:
        words.append(f"{grid.across} blocks of a cluster share each row")
    if grid.splits > 1:
        words.append(f"{grid.splits} blocks of a cluster share each loop")
    if grid.rows:
        words.append(f"only {grid.rows} rows of left operands are loaded")
    if grid.resident > 1:
        words.append(f"{grid.resident} blocks at once on a multiprocessor")
    if grid.row_threads:
        words.append(f"{grid.row_threads} threads share a row")
    if grid.swapped:
        words.append("rows of the result along the columns of instructions")
    if grid.split:
        words.append("f32 products by planes of bf16")
    if grid.programs:
        what = "take blocks from a counter" if grid.counted else "go through all blocks"
        words.append(f"{grid.programs} programs {what}")
    if grid.private:
        words.append("small tensors updated in shared memory first")
    if grid.raster > 1:
        words.append(f"{grid.raster} rows of blocks walked together")
    if grid.copied:
        words.append(f"{len(grid.copied)} operand{'s' * (len(grid.copied) > 1)} copied before to aligned rows")
    if grid.lines:
        words.append(f"{len(grid.lines)} of these to rows that start at lines of the cache")
    return ", ".join(words)


def plan_differences(earlier: Plan, plan: Plan, tensors: Sequence[str]) -> list[str]:
    """What `plan` says otherwise than `earlier`: first what follows from the call (sizes, alignment), then choices."""
    found = [
        f"{name} is {_size(plan, name)}, not {_size(earlier, name)}"
        for name in dict.fromkeys((*_sizes(plan), *_sizes(earlier)))
        if _size(plan, name) != _size(earlier, name)
    ]
    for name, now, before in zip(tensors, plan.alignment, earlier.alignment):
        if now != before:
            found.append(f"`{name}` is aligned to {_bytes(now)}, not {before}")
    before_blocks = dict(earlier.blocks)
    for name, size in plan.blocks:
        if size != before_blocks.get(name):
            found.append(f"blocks of {size} along {name}, not {before_blocks.get(name)}")
    if plan.parts != earlier.parts:
        found.append(f"sums {_parts(plan)}, not {_parts(earlier)}")
    if plan.turned != earlier.turned:
        found.append(f"operands {_turned(plan, tensors)}, not {_turned(earlier, tensors)}")
    if plan.library != earlier.library:
        now, before = ("kernels of ours" if one is None else "cuBLASLt" for one in (plan.library, earlier.library))
        found.append(f"{now}, not {before}" if now != before else "another algorithm of cuBLASLt")
    if plan.forwarded != earlier.forwarded:
        found.append(f"loops {_forwarded(plan)}, not {_forwarded(earlier)}")
    for grid, other in zip(plan.grids, earlier.grids):
        if grid != other:
            found.append(f"{grid_words(grid)}, not {grid_words(other)}")
    return found


def _parts(plan: Plan) -> str:
    """Into how many parts sums are split."""
    if len(plan.parts) <= 1:
        return f"in {plan.parts[0]} parts, added by another grid" if plan.parts else "whole"
    return "in " + "/".join(map(str, plan.parts)) + " parts by grid, added by others"


def _forwarded(plan: Plan) -> str:
    """Whether loops that read what they stored are written out."""
    return "written out, and what is stored and read again stays in registers" if plan.forwarded else "as they are"


def _turned(plan: Plan, tensors: Sequence[str]) -> str:
    """Which operands are turned before."""
    names = [f"`{tensors[number]}`" if number < len(tensors) else f"tensor {number}" for number in plan.turned]
    return f"{', '.join(names)} turned before, by another grid" if names else "as they are"


def _sizes(plan: Plan) -> Iterable[str]:
    """The sizes that a plan knows something of."""
    return dict.fromkeys(name for name, _ in (*plan.sizes, *plan.capacities, *plan.divisors))


def _size(plan: Plan, name: str) -> str:
    exact, room, divisor = (dict(pairs).get(name) for pairs in (plan.sizes, plan.capacities, plan.divisors))
    if exact is not None:
        return f"exactly {exact}"
    words = [f"at most {room}"] if room is not None else []
    words += [f"a multiple of {divisor}"] if divisor is not None else []
    return " and ".join(words) or "any"


def _alignment(plan: Plan, tensors: Sequence[str]) -> str:
    known = list(zip(tensors, plan.alignment))
    if len(set(plan.alignment)) == 1:
        return f"rows start at multiples of {_bytes(plan.alignment[0])}"
    return "rows start at multiples of " + ", ".join(f"{_bytes(size)} (`{name}`)" for name, size in known)


def _bytes(count: int) -> str:
    return f"{count} byte{'s' * (count != 1)}"
