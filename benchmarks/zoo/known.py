"""What is known to be far from its floor, and why: the work list. A test fails where a case is here without need, or is
not here and should be."""

from __future__ import annotations

CLIFF = 1.5
"""A predicted time over the floor that has to be listed, or to be mended."""

_RANKING = "blocks at the edges of a narrow window are masked: as many as those within"
_CAPPED = "tanh is two operations of the slow unit for each score, and the exponential a third"
_STRIDED = "neighbouring threads take every other element: a line for each few of them"
_PLACES = "pixels come from L2 again for each place of the window, and are multiplied with few columns"
_SMALL_PRODUCTS = "two products that are added are two kernels, each with too few blocks for all multiprocessors"
_HELD_COLUMNS = "blocks of a cluster hold columns, begin and end together, and tell each other each result"
_EXCHANGES = "each thread tells others of eight columns, numbers and places: more instructions than what it loads takes"
_LONG_ROWS = "long rows are gone through again for each fold: instructions, beside few blocks whose loads nothing hides"
_LAUNCH = "a few us, of which the launch and the first loads are most"
_WIDER_PIXELS = "the image is copied to wider pixels, its weights too: three kernels or more"
_WIDENED = "a left or right operand that is computed goes to memory first, in its wide form"
_UNPACKED = "bytes and nibbles become floats one by one, and are scaled: instructions, beside few bytes"
_WAITS = "steps wait for loads, sixteen at a time at most, and few programs hide what each of them waits"

KNOWN: dict[str, str] = {
    # quantised weights
    "i4 in groups, 1 row": _UNPACKED,
    "i4 in groups, 16 rows": _UNPACKED,
    "u4 in groups, zero points, 1 row": _UNPACKED,
    "u4 in groups, zero points": _UNPACKED,
    "u4 in groups, zero points, 16 rows": _UNPACKED,
    # folds and norms
    "softmax, long rows": "rows longer than a block takes are read twice, by two kernels",
    "softmax, columns": _HELD_COLUMNS,
    "softmax, middle axis": _HELD_COLUMNS,
    "group norm": "a group is longer than a block takes: one kernel for what is folded, and one that reads it again",
    "layer norm, gradients": "rows and columns are folded by two kernels, each of which reads all",
    # scans
    "argmax, columns": _EXCHANGES,
    "running sum, one row": "launches: a second one folds the parts that the first one scans, for 4 MiB",
    "top 2 of experts": "the softmax goes to memory: a formula is not fused into the kernel of top_k",
    # movement
    "rotary embedding, interleaved": _STRIDED,
    "gather of columns": "gathered columns are single elements: a sector for each",
    # products
    "product, 512": "most of it is the launch; to share the sums would take a second one",
    "product, deep and wide": "parts of the sum go through memory, and blocks that share operands wait for each other",
    "product, uneven": "rows of 1000 elements start within lines of memory, which takes TMA twice as long",
    "product, odd": "rows of an odd size have no TMA: a warp copies them element by element",
    "product, batches side by side": "operands are turned by a kernel of their own, and the result is read turned",
    "x @ w of groups of i8": _WIDENED,
    "narrow perceptron": "three products in a row are two kernels, with the wide middle in memory",
    # attention
    "attention, d 64": "exponentials take as long as products do, and are not hidden behind them wholly",
    "attention, short": "197 keys fill two blocks of 128 in part, and queries are masked and accessed by element",
    "attention, f32": "products in f32 with all digits are single multiply-adds, at 0.62 of their rate",
    "attention, causal, d 64": "few blocks: their lengths differ, and the longest one sets the time",
    "attention, both sides of 256": _RANKING,
    "capped scores, kernel": _CAPPED,
    "f8 in scaled groups, kernel": "sums of each group are scaled and added by threads, outside of tensor cores",
    "attention, capped": _CAPPED,
    "attention, cross": "77 keys: one short block for each program, whose start and end are not hidden",
    "decoding, grouped, batch 1": "launches: a second one merges the parts of the keys",
    "decoding, latent": "with 128 heads the products bind, at 0.75 of what the device has power for",
    "linear attention": "sums of rows beside products are kernels of their own, and read keys and queries again",
    # convolutions and pooling
    "convolution, 3x3, 64 channels": _PLACES,
    "convolution, 3x3, 256 channels": _PLACES,
    "convolution, 7x7 of 3 channels": "the image is copied to pixels of four channels, its weights too: three kernels",
    "convolution, 5x5, 32 channels": _PLACES,
    "convolution, turned views": _PLACES,
    "convolution, channels first": "the image is copied, its channels last, and so are the weights: three kernels",
    "grouped convolution": _PLACES,
    # operators
    **dict.fromkeys(("C1D, batch 1", "C1D, batch 16", "GRP, batch 1", "GRP, batch 16"), _LAUNCH),
    **dict.fromkeys(("CAP, batch 1", "CAP, batch 16"), _LAUNCH),
    **dict.fromkeys(("C2D, batch 1", "C2D, batch 16", "C3D, batch 1", "C3D, batch 16"), _WIDER_PIXELS),
    **dict.fromkeys(("CBR, batch 1", "CBR, batch 16"), _WIDER_PIXELS),
    "DIL, batch 1": _WIDER_PIXELS + ", and what lies between places is multiplied by zeros",
    "DIL, batch 16": _WIDER_PIXELS + ", and what lies between places is multiplied by zeros",
    "T2D, batch 1": "a sum of 2048 for few results",
    "T2D, batch 16": "a sum of 2048 for few results",
    # recurrent cells
    "LSTM cell": _SMALL_PRODUCTS,
    "GRU cell": _SMALL_PRODUCTS,
    "four steps of a cell": _SMALL_PRODUCTS,
    **dict.fromkeys(("smoothed along time, kernel", "delta rule, kernel"), _WAITS),
    "LSTM, 128 steps": "a launch for each step, which waits for the one before: weights do not stay on the chip",
    "selective scan": "sixteen states of a channel are one thread's, with an exponential for each: instructions",
    "Mamba-2, in chunks": "seven kernels: scores and states of chunks go through memory between them",
    # programs of the field
    "stencil of a volume, kernel": "rows of 511: seven loads of single elements under masks for a result: instructions",
    # experts
    "two of 64 experts, a layer": "routing is eleven small kernels",
    # blocks
    "encoder layer, 384 wide": "five kernels with little to do: what lies between them goes through memory",
    "cross-attention layer": "six kernels with little to do: what lies between them goes through memory",
    "bottleneck of an image net": "three kernels, with what lies between them in memory",
    "ConvNeXt's layer": "depthwise convolution of 7 by 7: each place of the window is a pass of loads",
    "mixer layer": "what lies between kernels goes through memory, and is turned on the way",
    "eight experts, all of them": "seventeen small products, one after the other, their sums in memory between them",
    "latent attention layer": "products that expand the latent vectors are kernels of their own",
    # losses
    **dict.fromkeys(("cross-entropy, smoothed", "gradient of cross-entropy"), _LONG_ROWS),
    "binary cross-entropy": "a logarithm and two exponentials in f32 for each element: 52 instructions, counted",
    **dict.fromkeys(("divergence of rows", "perplexity of rows"), _LONG_ROWS),
    "contrastive loss": "a log-sum-exp behind a product is a kernel of its own: the scores go to memory",
}
"""Why a case is predicted to be beyond CLIFF, or multiplies outside of tensor cores; by name."""

BROKEN: dict[str, str] = {}
"""What cannot be compiled for a GPU, and why; by name."""
