"""Messages of passes: contracts that cannot be kept, and pipelines that cannot be read or run."""

from tiledsl.support.errors import (
    ErrorSpec,
    TileResourceError,
    TileShapeError,
    TileSyntaxError,
    TileTypeError,
    TileUnsupportedError,
)

ENTRIES: dict[str, ErrorSpec] = {
    "pass-unknown": ErrorSpec(TileSyntaxError, "there is no pass `{name}`", "{hint}"),
    "pass-option-unknown": ErrorSpec(TileSyntaxError, "the pass `{name}` has no option `{option}`", "{hint}"),
    "pass-option-value": ErrorSpec(
        TileTypeError, "option `{option}` of the pass `{name}` must be {expected}, not `{value}`", "write `{example}`"
    ),
    "pass-option-twice": ErrorSpec(
        TileSyntaxError, "option `{option}` of the pass `{name}` is given twice", "leave one of the two out"
    ),
    "pass-option-missing": ErrorSpec(
        TileTypeError, "the pass `{name}` needs the option `{option}`", "write `{name}{{{option}={example}}}`"
    ),
    "pass-text": ErrorSpec(
        TileSyntaxError,
        "expected {expected}, found {found}",
        "a pipeline reads `canonicalise,infer-tiling{{arch=cpu}}`",
    ),
    "pass-form": ErrorSpec(TileTypeError, "the pass `{name}` needs the form `{requires}`, but finds `{form}`", "{how}"),
    "pass-size-unknown": ErrorSpec(TileShapeError, "@{function} has no size `{size}`", "{hint}"),
    "pass-size-contradiction": ErrorSpec(
        TileShapeError, "@{function} promises {fact}, but {size} is {value}", "give a multiple of {divisor}"
    ),
    "pass-size-negative": ErrorSpec(
        TileShapeError, "with {sizes}, {value} would have the shape {shape}", "give sizes that are large enough"
    ),
    "machine-unknown": ErrorSpec(TileUnsupportedError, "there is no machine table `{name}`", "{hint}"),
    "gpu-unknown": ErrorSpec(TileUnsupportedError, "there is no GPU architecture `{name}` here", "{hint}"),
    "audit-target": ErrorSpec(
        TileUnsupportedError,
        "`{name}` cannot be audited for `{arch}`: times are predicted for GPUs and the CPU",
        'audit it with `arch="sm_90"`, which needs no GPU, or with `arch="cpu"`',
    ),
    "gpu-too-old": ErrorSpec(
        TileUnsupportedError,
        "the GPU architecture `{name}` is older than `{oldest}`, the first that code is made for",
        'compile for `arch="cpu"`, or run on a newer GPU',
    ),
    "shared-too-much": ErrorSpec(
        TileResourceError, "this takes {needed} of shared memory, a block has {limit} on {arch}", "{hint}"
    ),
    "barrier-cluster-role": ErrorSpec(
        TileResourceError,
        "`{op}` needs what other blocks of the cluster did by `{other}`, but stands in a role, which cannot wait for"
        " them",
        "take no cluster, or leave such an access to the threads of all roles",
    ),
    "barrier-numbers": ErrorSpec(
        TileResourceError,
        "this role needs a barrier of its own, but all {numbers} numbers are taken",
        "take fewer named barriers, or fewer roles",
    ),
    "plan-incomplete": ErrorSpec(
        TileTypeError, "the plan says nothing of {what}", "put `{example}` into the plan, and run `apply-plan` with it"
    ),
    "plan-cluster": ErrorSpec(
        TileResourceError,
        "a row of {elements} elements is too long for one block of threads, and {what} cannot be shared out over"
        " several",
        "go through the long axis in blocks, with `for n in tile.range(N):`",
    ),
    "plan-batches": ErrorSpec(
        TileResourceError,
        "`tile.dot` of {batches} matrices at once keeps {sums} sums in each thread, which has registers for {most}",
        "give the leading axes smaller blocks, as in `tile.grid(B, M, N, block=(1, tile.auto, tile.auto))`",
    ),
    "plan-specialised": ErrorSpec(
        TileResourceError,
        "this grid cannot be shared out among threads that load and threads that multiply, because {reason}",
        "take a plan without a schedule, in which all threads do the same",
    ),
    "opt-file": ErrorSpec(
        TileSyntaxError, "cannot read `{file}`: {reason}", "name a text file with IR, or `-` for standard input"
    ),
    "pass-level-scalar": ErrorSpec(
        TileResourceError,
        "{value} is a scalar, it cannot be at level `{level}`",
        "leave the level out: scalars live in registers; load at least one whole axis to have a tile",
    ),
}
