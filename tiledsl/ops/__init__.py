"""The library of ops, written in the language: `tiledsl.ops.linear(x, w, b)`.

In a function that `tiledsl.trace` writes down they record what they compute, to be fused with what is around them.
Called with arrays (NumPy's, or on a CUDA device) they are traced, compiled and run at once, as any `@tile.kernel` in
tensor form. Names and arguments are those of PyTorch's functions and of NumPy; axes are `axis`, and may be negative.
"""

from tiledsl.ops.activations import (
    celu,
    elu,
    gelu,
    glu,
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    logsigmoid,
    mish,
    prelu,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    softplus,
    softshrink,
    softsign,
    swiglu,
    tanh,
    tanhshrink,
    threshold,
)
from tiledsl.ops.attention import attention
from tiledsl.ops.dropout import dropout
from tiledsl.ops.experts import combine, dispatch, grouped_linear, route
from tiledsl.ops.fourier import fft, irfft, rfft
from tiledsl.ops.images.convolution import conv1d, conv2d, conv3d
from tiledsl.ops.images.pooling import (
    adaptive_avg_pool,
    adaptive_max_pool,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    lp_pool,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from tiledsl.ops.images.resize import interpolate, resize
from tiledsl.ops.images.sampling import affine_grid, channel_shuffle, grid_sample, pixel_shuffle, pixel_unshuffle
from tiledsl.ops.images.transposed import conv_transpose1d, conv_transpose2d, conv_transpose3d
from tiledsl.ops.images.unfold import fold, unfold
from tiledsl.ops.indexing import gather, gather_nd, index, take
from tiledsl.ops.losses import (
    bce_loss,
    bce_with_logits_loss,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    nll_loss,
    smooth_l1_loss,
)
from tiledsl.ops.masks import eye, linspace, masked_fill, one_hot, tril, triu, where
from tiledsl.ops.normalisation import (
    batch_norm,
    batch_norm_training,
    group_norm,
    instance_norm,
    layer_norm,
    local_response_norm,
    lp_normalize,
    rms_norm,
)
from tiledsl.ops.order import argmax, argmin, argsort, bucketize, searchsorted, sort, top_k
from tiledsl.ops.padding import pad
from tiledsl.ops.positions import embedding, rotary_embedding
from tiledsl.ops.probabilities import cross_entropy, log_softmax, logsumexp, softmax, softmin
from tiledsl.ops.products import linear, matmul
from tiledsl.ops.quantisation import dequantise, pack, quantise, quantised_linear, unpack
from tiledsl.ops.recurrent import gru, lstm, rnn
from tiledsl.ops.scans import cummax, cummin, cumprod, cumsum, logcumsumexp
from tiledsl.ops.scatter import index_put, scatter, scatter_nd
from tiledsl.ops.shapes import (
    concat,
    diag_embed,
    diagonal,
    flip,
    repeat,
    repeat_interleave,
    reshape,
    roll,
    split,
    stack,
    transpose,
    unstack,
)
from tiledsl.ops.statistics import mean, var

__all__ = [
    "matmul", "linear", "grouped_linear", "route", "dispatch", "combine", "quantised_linear",
    "quantise", "dequantise", "pack", "unpack",
    "attention", "rnn", "lstm", "gru", "fft", "rfft", "irfft",
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "lp_pool",
    "adaptive_avg_pool", "adaptive_max_pool", "fold", "unfold", "resize", "interpolate", "grid_sample", "affine_grid",
    "pixel_shuffle", "pixel_unshuffle", "channel_shuffle",
    "softmax", "log_softmax", "softmin", "logsumexp", "layer_norm", "rms_norm", "batch_norm", "batch_norm_training",
    "group_norm", "instance_norm", "lp_normalize", "local_response_norm",
    "cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "bce_loss",
    "bce_with_logits_loss", "kl_div",
    "relu", "relu6", "leaky_relu", "prelu", "elu", "selu", "celu", "gelu", "silu", "mish", "sigmoid", "logsigmoid",
    "tanh", "hardtanh", "hardsigmoid", "hardswish", "hardshrink", "softshrink", "tanhshrink", "softplus", "softsign",
    "threshold", "glu", "swiglu",
    "embedding", "rotary_embedding", "dropout", "mean", "var",
    "concat", "stack", "split", "unstack", "transpose", "reshape", "pad", "flip", "roll", "repeat", "repeat_interleave",
    "diagonal", "diag_embed", "where", "masked_fill", "triu", "tril", "eye", "linspace", "one_hot",
    "take", "gather", "gather_nd", "index", "scatter", "scatter_nd", "index_put",
    "cumsum", "cumprod", "cummax", "cummin", "logcumsumexp",
    "sort", "argsort", "top_k", "argmax", "argmin", "searchsorted", "bucketize",
]  # fmt: skip
