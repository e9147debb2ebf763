"""Words of NumPy, PyTorch, Triton and CUDA that people write out of habit, and what this language has for each.

Data only: `word_advice` looks things up, for kernels in tile form and for formulas alike. A row has words, and what to
write for them; `{x}` is the operand as it was written. Words that the language has by the same name are not here.
"""

from __future__ import annotations

from collections.abc import Iterable


def _by_word(rows: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {word: advice for words, advice in rows for word in words.split()}


_OPS = """
    linear grouped_linear route dispatch combine quantised_linear quantise dequantise pack unpack attention rnn lstm
    gru fft rfft irfft conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d max_pool1d max_pool2d
    max_pool3d avg_pool1d avg_pool2d avg_pool3d lp_pool adaptive_avg_pool adaptive_max_pool fold unfold resize
    interpolate grid_sample affine_grid pixel_shuffle pixel_unshuffle channel_shuffle log_softmax softmin layer_norm
    rms_norm batch_norm batch_norm_training group_norm instance_norm lp_normalize local_response_norm cross_entropy
    nll_loss mse_loss l1_loss smooth_l1_loss huber_loss bce_loss bce_with_logits_loss kl_div relu6 leaky_relu prelu
    elu selu celu mish logsigmoid hardsigmoid hardswish hardshrink softshrink tanhshrink softplus softsign threshold
    glu swiglu embedding rotary_embedding unstack diagonal diag_embed one_hot gather_nd index scatter_nd index_put
    cummax cummin logcumsumexp top_k bucketize
"""
"""Words of `tiledsl.ops` that the language does not have."""

_FUNCTIONS = [
    (
        "inv solve det slogdet cholesky qr svd eigh eigvalsh lstsq pinv matrix_rank",
        "compute it before the kernel, and pass the result as an argument",
    ),
    (
        "concatenate cat hstack vstack column_stack append",
        "write `tile.concat((a, b), axis)` in a formula; in tile form, store to parts of one tensor",
    ),
    ("chunk array_split", "write `tile.split(x, parts, axis)` in a formula"),
    ("expand_dims unsqueeze", "write `x[:, None]`"),
    ("squeeze", "write `x.reshape(...)`, or subscript the axis by 0"),
    ("moveaxis swapaxes permute permute_dims rollaxis", "write `tile.transpose(x, axes)`"),
    ("trans", "write `x.mT`"),
    ("ravel flatten", "write `x.reshape(-1)`"),
    ("view", "write `x.reshape(...)`"),
    ("expand", "write `tile.broadcast_to(x, shape)`"),
    ("repeat repeat_interleave", "write `tile.broadcast_to(x[:, None], shape)`, and reshape"),
    ("flip flipud", "write `x[::-1]` of a tensor"),
    ("fliplr", "write `x[:, ::-1]` of a tensor"),
    ("roll", "subscript by coordinates: `x[(tile.arange(N) + shift) % N]`"),
    ("meshgrid", "write `tile.arange(M)[:, None]` and `tile.arange(N)`, which broadcast"),
    ("linspace", "write `start + step * tile.arange(n)`"),
    ("tril triu", "compare coordinates: `tile.where(tile.arange(M)[:, None] >= tile.arange(N), {x}, 0)`"),
    ("eye", "compare coordinates: `tile.arange(N)[:, None] == tile.arange(N)`"),
    ("diag", "compare coordinates: `tile.where(tile.arange(N)[:, None] == tile.arange(N), x, 0)`"),
    ("zeros_like", "write `tile.zeros(x.shape, x.dtype)`"),
    ("ones_like", "write `tile.ones(x.shape, x.dtype)`"),
    ("full_like", "write `tile.full(x.shape, value, x.dtype)`"),
    ("empty_like", "write `tile.empty(x.shape, x.dtype)`"),
    ("array asarray tensor as_tensor from_numpy Parameter", "pass the array to the kernel as an argument"),
    ("ascontiguousarray", "leave it out: kernels take any strides"),
    (
        "random standard_normal normal uniform randint rand_like randn_like bernoulli",
        "write `tile.rand(seed, offsets)` or `tile.randn(seed, offsets)`: one number for each integer offset",
    ),
    ("absolute fabs", "write `tile.abs(x)`"),
    ("arctan", "write `tile.atan(x)`"),
    ("arctan2", "write `tile.atan2(y, x)`"),
    ("arcsin", "write `tile.asin(x)`"),
    ("arccos", "write `tile.acos(x)`"),
    ("arcsinh", "write `tile.asinh(x)`"),
    ("arccosh", "write `tile.acosh(x)`"),
    ("arctanh", "write `tile.atanh(x)`"),
    ("fix", "write `tile.trunc(x)`"),
    ("gammaln", "write `tile.lgamma(x)`"),
    ("power", "write `x ** y`"),
    ("square", "write `x * x`"),
    ("reciprocal", "write `1 / x`"),
    ("negative neg", "write `-x`"),
    ("add", "write `a + b`"),
    ("subtract sub", "write `a - b`"),
    ("multiply mul", "write `a * b`"),
    ("divide div true_divide", "write `a / b`"),
    ("floor_divide", "write `a // b`"),
    ("remainder mod", "write `a % b`"),
    ("fmax", "write `tile.maximum(a, b)`"),
    ("fmin", "write `tile.minimum(a, b)`"),
    ("clamp", "write `tile.clip(x, low, high)`"),
    ("rint around", "write `tile.round(x)`"),
    ("cbrt", "write `x ** (1 / 3)`"),
    ("nan_to_num", "write `tile.where(x != x, 0, x)`"),
    ("bitwise_and", "write `a & b`"),
    ("bitwise_or", "write `a | b`"),
    ("bitwise_xor", "write `a ^ b`"),
    ("bitwise_not invert", "write `~x`"),
    ("left_shift", "write `a << b`"),
    ("right_shift", "write `a >> b`"),
    ("greater", "write `a > b`"),
    ("less", "write `a < b`"),
    ("equal", "write `a == b`"),
    ("not_equal", "write `a != b`"),
    ("isclose", "write `tile.abs(a - b) <= tolerance`"),
    ("allclose", "write `tile.all(tile.abs(a - b) <= tolerance)`"),
    ("select", "write `tile.where(condition, x, y)`"),
    ("cdiv", "write `-(-a // b)`"),
    ("gelu_ GELU", "write `tile.gelu(x)`"),
    ("hardtanh", "write `tile.clip(x, -1, 1)`"),
    ("amax", "write `tile.max(x, axis)`"),
    ("amin", "write `tile.min(x, axis)`"),
    ("average", "write `tile.mean(x, axis)`"),
    ("nansum", "write `tile.sum(tile.where(x != x, 0, x), axis)`"),
    (
        "var",
        "write `tile.mean((x - tile.mean(x, axis, keepdims=True)) ** 2, axis)`, or `ops.var(x, axis)` in a formula",
    ),
    (
        "std",
        "write `tile.mean((x - tile.mean(x, axis, keepdims=True)) ** 2, axis)`, or `ops.var(x, axis)` in a "
        "formula; then `tile.sqrt`",
    ),
    ("norm", "write `tile.sqrt(tile.sum(x * x, axis))`"),
    ("logsumexp", "write `m + tile.log(tile.sum(tile.exp(x - m), axis))` with `m = tile.max(x, axis, keepdims=True)`"),
    ("count_nonzero", "write `tile.sum(x != 0, axis)`"),
    ("cumprod", "write `tile.scan(x, axis, tile.prod)`, or a helper that multiplies"),
    ("xor_sum", "write `tile.reduce(x, axis, fn)`"),
    ("associative_scan", "write `tile.scan(x, axis, fn)`"),
    ("matmul mm bmm", "write `a @ b`, or `tile.dot(a, b)`, which accumulates in f32"),
    ("inner", "write `tile.sum(a * b, axis)`"),
    ("outer", "write `a[:, None] * b`"),
    ("tensordot", "write `tile.einsum(formula, a, b)`"),
    ("vdot", "write `tile.sum(a * b)`"),
    ("trace", "write `tile.sum(tile.where(rows == columns, x, 0))`"),
    ("gather", "subscript by a tile of ints: `x[index]`"),
    ("index_select", "subscript by a tensor of ints: `x[index]`"),
    ("take_along_axis", "subscript by tiles of ints: `x[rows[:, None], index]`"),
    ("scatter", "store by a tile of ints: `x[index] = value`"),
    ("scatter_add", "write `tile.atomic_add(x[index], value)`"),
    ("masked_fill", "write `tile.where(mask, value, x)`"),
    (
        "nonzero argwhere unique masked_select",
        "keep the shape, and choose by `tile.where`: shapes never depend on data",
    ),
    ("argsort", "write `ops.argsort(x)` in a formula"),
    ("topk", "write `ops.top_k(x, k)` in a formula"),
    ("bincount histogram", "write `tile.atomic_add(counts[x[n]], 1)`"),
    ("searchsorted", "write `tile.sum(edges <= x[:, None], axis=1)`"),
    ("convolve", "write `ops.conv2d` in a formula"),
    ("scaled_dot_product_attention", "write `ops.attention(q, k, v)`"),
    ("dropout", "write `ops.dropout` in a formula"),
    ("conv1d", "write `ops.conv1d` in a formula"),
    ("Linear", "write `ops.linear(x, weight, bias)`"),
    ("LayerNorm", "write `ops.layer_norm(x, weight, bias)`"),
    ("Conv2d", "write `ops.conv2d(x, weight)`"),
    ("Softmax", "write `tile.softmax(x, axis)`"),
    ("ReLU", "write `tile.relu(x)`"),
    ("Embedding", "write `ops.embedding(indices, weight)`"),
    ("tl.load tl.store", "subscript the tensor: `x[m]` reads a block, `x[m] = value` writes one"),
    (
        "program_id num_programs block_id bid thread_id",
        "write `for m in tile.grid(M):`; `m` is this program's block, `m.start` its first coordinate",
    ),
    ("make_block_ptr make_tensor_descriptor", "subscript the tensor: `a[m, k]` is the block"),
    ("advance", "loop: `for k in tile.range(K):`"),
    ("static_range", "write `range`: it is unrolled where its bounds are known when compiling"),
    (
        "debug_barrier syncthreads synchronize",
        "leave it out: what is ordered, and where threads wait, is the compiler's",
    ),
    (
        "multiple_of max_contiguous max_constancy assume",
        "leave it out: what divides and what is contiguous is found at the call",
    ),
    ("device_print", "write `tile.print(...)`"),
    ("static_print", "print before the kernel"),
    ("device_assert", "write `tile.assert_(condition, message)`"),
    ("atomic_cas", "write `tile.atomic_exchange` or `tile.atomic_max`"),
    ("atomic_xchg", "write `tile.atomic_exchange(x[m], value)`"),
    ("inline_asm_elementwise", "write it in words of the language"),
    ("jit njit", "write `@tile.kernel`, or `@tile.func` for a helper"),
    ("autotune", "leave blocks out, or to `tile.auto`"),
    ("vmap", "write a grid, or formulas, which broadcast"),
]
_METHODS = [
    ("astype type type_as cast", "write `{x}.to(dtype)`, with `tile.f32` say"),
    ("float", "write `{x}.to(tile.f32)`"),
    ("double", "write `{x}.to(tile.f64)`"),
    ("half", "write `{x}.to(tile.f16)`"),
    ("bfloat16", "write `{x}.to(tile.bf16)`"),
    ("int", "write `{x}.to(tile.i32)`"),
    ("long", "write `{x}.to(tile.i64)`"),
    ("bool", "write `{x} != 0`"),
    ("byte", "write `{x}.to(tile.u8)`"),
    ("view", "write `{x}.reshape(...)`; to another dtype, view the array before the call"),
    ("view_as reshape_as", "write `{x}.reshape(y.shape)`"),
    ("resize squeeze", "write `{x}.reshape(...)`"),
    ("flatten ravel", "write `{x}.reshape(-1)`"),
    ("unsqueeze", "write `{x}[:, None]`"),
    ("expand", "write `tile.broadcast_to({x}, shape)`"),
    ("expand_as", "write `tile.broadcast_to({x}, y.shape)`"),
    ("repeat", "write `tile.broadcast_to({x}[:, None], shape)`, and reshape"),
    ("permute swapaxes swapdims", "write `{x}.transpose(axes)`"),
    ("t H", "write `{x}.T`"),
    ("mH", "write `{x}.mT`"),
    ("flip", "write `x[::-1]` of a tensor"),
    ("contiguous strides stride", "leave it out: kernels take any strides"),
    ("data_ptr", "subscript the tensor: `{x}[m]`"),
    ("cuda cpu device get numpy is_cuda", "leave it out: a kernel runs where the arrays of its call are"),
    ("detach requires_grad requires_grad_ backward grad", "leave it out: kernels have no gradients"),
    ("clone copy", "leave it out: tiles never change"),
    ("item", "subscript by 0, or fold: `tile.max({x})`"),
    ("tolist", "loop: `for i in range(n):`, and subscript by `i`"),
    ("dim", "write `{x}.ndim`"),
    ("numel nelement", "write `{x}.size`"),
    ("itemsize element_size", "write `{x}.dtype.bytes`"),
    ("nbytes", "write `{x}.size * {x}.dtype.bytes`"),
    ("clamp", "write `tile.clip({x}, low, high)`"),
    ("matmul mm bmm", "write `{x} @ y`"),
    ("add", "write `{x} + y`"),
    ("sub", "write `{x} - y`"),
    ("mul", "write `{x} * y`"),
    ("div", "write `{x} / y`"),
    ("add_ mul_ sub_ div_ copy_ zero_", "tiles never change: write `x = x + y`"),
    ("fill fill_", "write `tile.full(shape, value)`"),
    ("put", "store: `x[index] = value`"),
    ("eq", "write `{x} == y`"),
    ("ne", "write `{x} != y`"),
    ("lt", "write `{x} < y`"),
    ("le", "write `{x} <= y`"),
    ("gt", "write `{x} > y`"),
    ("ge", "write `{x} >= y`"),
    ("neg", "write `-{x}`"),
    ("square", "write `{x} * {x}`"),
    ("amax", "write `{x}.max(axis)`"),
    ("amin", "write `{x}.min(axis)`"),
    ("ptp", "write `{x}.max(axis) - {x}.min(axis)`"),
    ("masked_fill", "write `tile.where(mask, value, {x})`"),
    ("norm", "write `tile.sqrt(tile.sum({x} * {x}, axis))`"),
    ("tril triu", "compare coordinates: `tile.where(tile.arange(M)[:, None] >= tile.arange(N), {x}, 0)`"),
    ("chunk", "write `tile.split({x}, parts, axis)` in a formula"),
    ("append", "tiles never grow: make a tensor by `tile.empty`, and store to its parts"),
    ("real imag", "leave it out: there are no complex numbers"),
]
_NAMES = [
    ("tl triton", "words of Triton are not known here: write those of `tile`"),
    ("np numpy jnp cp", "write the word of `tile` for it"),
    ("torch F nn", "write the word of `tile` for it, or one of `tiledsl.ops`"),
    (
        "threadIdx blockIdx blockDim gridDim cuda",
        "write `for m in tile.grid(M):`; `m` is this program's block, `m.start` its first coordinate",
    ),
]
_KEYWORDS = [
    ("dim axes", "axis"),
    ("dims", "axes"),
    ("keepdim keep_dims", "keepdims"),
    ("out_dtype", "dtype"),
    ("a_min min", "low"),
    ("a_max max", "high"),
    ("accumulator", "acc"),
    ("newshape size repeats", "shape"),
    ("input", "x"),
    ("reverse_order", "reverse"),
    ("BLOCK BLOCK_SIZE", "block"),
    ("stages", "num_stages"),
]
_ARGUMENTS = [
    ("mask", "leave it out: a block at the edge of an axis is short; `other=` is what is read outside"),
    ("boundary_check", "leave it out: a block at the edge of an axis is short"),
    ("padding_option", "write `other=`: what is read outside"),
    ("allow_tf32 input_precision", 'write `precision="tf32"`'),
    ("device", "leave it out: a kernel runs where the arrays of its call are"),
    ("requires_grad", "leave it out: kernels have no gradients"),
    ("eviction_policy cache_modifier volatile", "leave it out: how a tile is read is the compiler's"),
    ("num_warps num_ctas", "leave it out: how many threads there are is the compiler's"),
    ("where", "choose first: `tile.where(condition, x, 0)`"),
    ("initial", "fold, and then combine with the start"),
    ("order", "leave it out: the order is row by row"),
    ("inplace", "tiles never change: use the result"),
    ("ddof", "write it out: `tile.sum((x - mean) ** 2) / (n - 1)`"),
    ("casting", "convert first: `x.to(dtype)`"),
]

FUNCTIONS = {word: f"write `ops.{word}` in a formula" for word in _OPS.split()} | _by_word(_FUNCTIONS)
"""Functions, of whichever module."""
METHODS = _by_word(_METHODS)
"""Attributes and methods of tensors and tiles. What is not here may be among the functions."""
NAMES = _by_word(_NAMES)
"""Names of modules that kernels do without; what is said of one whose member is not known."""
KEYWORDS = _by_word(_KEYWORDS)
"""Names of arguments, and what they are called here; taken where the word has a parameter of that name."""
ARGUMENTS = _by_word(_ARGUMENTS)
"""Arguments that no word has, and what to write instead."""
