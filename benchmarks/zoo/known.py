"""What is known to be far from its floor, and why: the work list. A test fails where a case is here without need, or is
not here and should be."""

from __future__ import annotations

CLIFF = 1.5
"""A predicted time over the floor that has to be listed, or to be mended."""

_JOINS = "what is joined or padded goes to memory first: a join is a kernel of its own"
_TWO_FOLDS = "each fold is a kernel that reads the tensor: folds of one tensor over one axis are not one group"
_LONG_SUM = "the long sum is not split among programs"
_RANKING = "the ranking of attention does not count the blocks that a mask leaves out"
_PARTLY_MASKED = "rows of an odd size are masked and accessed element by element"
_STRIDED = "neighbouring threads take every other element, or go backwards: a line for each few of them"
_WIDENED = "a left or right operand that is computed goes to memory first, in its wide form"

KNOWN: dict[str, str] = {
    # folds and norms
    "sum, odd rows": _PARTLY_MASKED,
    "least and largest, rows": _TWO_FOLDS,
    "softmax, long rows": "rows longer than a block takes are read twice, by two kernels",
    "softmax, short rows": "a row of 49 leaves most threads of its warps without work",
    "group norm": "the groups of an image are longer than a block takes: three kernels, one for each pass",
    # scans
    "maximum and argmax, rows": _TWO_FOLDS,
    "top 8, rows": "each of the 8 is found by a fold of the whole row: 8 passes of arithmetic over registers",
    "top 2 of experts": "the softmax goes to memory: a formula is not fused into the kernel of top_k",
    # movement
    "rotary embedding": _JOINS,
    "rotary embedding, ops": "both halves of a pair are read by two accesses, and positions again for each head",
    "rotary embedding, interleaved": _STRIDED,
    "join of two": _JOINS,
    "join of three rows": _JOINS,
    "stack of two": _JOINS,
    "every other column": _STRIDED,
    "backwards": _STRIDED,
    "pad": _JOINS,
    "shift of a row": _JOINS,
    "space to depth": "a reshape that strides cannot tell is a copy, and its blocks run along the wrong axis",
    "gather of columns": "gathered columns are single elements: a sector for each",
    # products
    "product, 512": "few blocks: most multiprocessors have none, and no sum is split among them",
    "product, odd": "rows whose size is no multiple of 8 have no TMA: mma.sync, and copies of single elements",
    "product, deep": _LONG_SUM,
    "product, deep and wide": _LONG_SUM,
    "product, f32": "products in f32 with all digits are single multiply-adds, at 0.62 of their rate",
    "product, f64": "mma.sync in f64 at the share that the model gives mma.sync of wgmma; f64 has no wgmma",
    "product, tf32": "a right operand whose rows run along n has no wgmma in 32 bits: mma.sync",
    "product, heads apart": "weights of four axes have no plan with warpgroups: mma.sync",
    "x @ w of i8": _WIDENED,
    "x @ w of groups of i8": _WIDENED,
    "narrow perceptron": "three products in a row are two kernels, with the wide middle in memory",
    # attention
    "attention, d 64": "exponentials take as long as products do, and are not hidden behind them wholly",
    "attention, short": "197 keys fill two blocks of 128 in part, and queries are masked and accessed by element",
    "attention, f32": "products in f32 with all digits are single multiply-adds, at 0.62 of their rate",
    "attention, causal, d 64": "few blocks: their lengths differ, and the longest one sets the time",
    "attention, window of 1024": _RANKING,
    "attention, both sides of 256": _RANKING,
    "attention, capped": "tanh is two operations of the slow unit for each score",
    "attention, lengths": "the length of the loop is data: it is neither ranked nor split by what it may be",
    "attention, cross": "77 keys: one short block for each program, whose start and end are not hidden",
    "decoding, grouped, batch 1": "few programs: the keys are not split among more of them",
    "linear attention": "sums of rows beside products are kernels of their own, and read keys and queries again",
}
"""Why a case is predicted to be beyond CLIFF, or multiplies outside of tensor cores; by name."""

BROKEN: dict[str, str] = {
    "running sum, one row": "a scanned axis is whole in one block: a long one fits in no shared memory",
}
"""What cannot be compiled for a GPU, and why; by name."""
