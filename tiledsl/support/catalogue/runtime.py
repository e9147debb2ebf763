"""Messages of the runtime: calls, arrays, devices, faults."""

from tiledsl.support.errors import (
    ErrorSpec,
    TileRuntimeError,
    TileShapeError,
    TileSyntaxError,
    TileTypeError,
    TileUnsupportedError,
)

ENTRIES: dict[str, ErrorSpec] = {
    # Calls
    "call-missing": ErrorSpec(
        TileTypeError, "`{kernel}` was called without `{parameter}`", "call it as `{kernel}{signature}`"
    ),
    "call-extra": ErrorSpec(
        TileTypeError,
        "`{kernel}` takes at most {most} positional arguments but was given {given}",
        "call it as `{kernel}{signature}`",
    ),
    "call-unknown": ErrorSpec(
        TileTypeError, "`{kernel}` has no parameter `{parameter}`", "{hint}call it as `{kernel}{signature}`"
    ),
    "call-duplicate": ErrorSpec(
        TileTypeError,
        "`{kernel}` was given `{parameter}` twice: by position and by name",
        "call it as `{kernel}{signature}`",
    ),
    # Arguments
    "argument-not-array": ErrorSpec(
        TileTypeError,
        "`{parameter}` is a {kind}, which is neither an array nor a number",
        "pass an array: {advice}",
    ),
    "array-dtype": ErrorSpec(
        TileTypeError,
        "`{parameter}` has dtype {dtype}, which kernels do not have",
        "convert it, for example `{parameter}.astype(np.float32)`; there are {known}",
    ),
    "array-byte-order": ErrorSpec(
        TileTypeError,
        "`{parameter}` has dtype {dtype}, in the byte order of another machine",
        'convert it: `{parameter}.astype({parameter}.dtype.newbyteorder("="))`',
    ),
    "array-masked": ErrorSpec(
        TileTypeError,
        "`{parameter}` is a masked array; a kernel would not see its mask",
        "pass `{parameter}.filled(value)`, and the mask as an array of its own if it is needed",
    ),
    "array-device": ErrorSpec(
        TileRuntimeError,
        "`{parameter}` is a {kind} on {device}, and kernels run on CPUs and CUDA devices",
        "copy it to the CPU first, for example `{parameter}.cpu()` or `{parameter}.get()`",
    ),
    "array-foreign": ErrorSpec(
        TileTypeError,
        "`{parameter}`, a {kind}, does not share its data: {reason}",
        "pass a NumPy array, for example `{parameter}.detach().numpy()`",
    ),
    "scalar-range": ErrorSpec(
        TileTypeError,
        "`{parameter}` is {value}, which does not fit {dtype}",
        "pass a number between {low} and {high}",
    ),
    "constant-value": ErrorSpec(
        TileTypeError,
        "`{parameter}` is a compile-time constant, but a {kind} was passed",
        "pass a number, a bool, a string, a dtype, None or a tuple of these; "
        "or drop the annotation `tile.constexpr` to make it a run-time argument",
    ),
    "argument-specialised": ErrorSpec(
        TileTypeError,
        "`{parameter}` is {actual}, but this kernel was compiled for {expected}",
        "pass what it was compiled for, or call `{kernel}` itself, which compiles what it needs",
    ),
    # Sizes
    "size-mismatch": ErrorSpec(
        TileShapeError,
        "size `{size}` is {first} in `{first_parameter}` (axis {first_axis}) "
        "but {second} in `{second_parameter}` (axis {second_axis})",
        "pass arrays that agree: `{first_parameter}` has shape {first_shape}, "
        "`{second_parameter}` has shape {second_shape}{way_out}",
    ),
    "size-fixed": ErrorSpec(
        TileShapeError,
        "axis {axis} of `{parameter}` must be {expected}, not {actual}",
        "pass an array of that size: `{parameter}` has shape {shape}{way_out}",
    ),
    "size-expression": ErrorSpec(
        TileShapeError,
        "axis {axis} of `{parameter}` must be `{size}` = {expected}, not {actual} ({values})",
        "pass an array of that size: `{parameter}` has shape {shape}{way_out}",
    ),
    "size-divisible": ErrorSpec(
        TileShapeError,
        "`{size}` is {actual}, but this kernel was compiled for multiples of {divisor}",
        "call `{kernel}` itself, which compiles what it needs, or compile it for such a size",
    ),
    "size-negative": ErrorSpec(
        TileShapeError,
        "axis {axis} of the output `{output}` is `{size}` = {actual}, a negative size ({values})",
        "pass larger arrays, or keep the size of the output from getting below 0",
    ),
    "part-negative": ErrorSpec(
        TileShapeError,
        "axis {axis} of a tile is `{size}` = {actual}, a negative size ({values})",
        "pass larger arrays, or make it under an `if` that asks for the size",
    ),
    # Outputs
    "out-nothing": ErrorSpec(
        TileTypeError,
        "`{kernel}` makes no output that `out` could stand for",
        "call it without `out`: it writes to its own arguments",
    ),
    "out-count": ErrorSpec(
        TileTypeError, "`out` has {given} arrays, but `{kernel}` makes {expected}", "pass {advice} as `out`"
    ),
    "out-not-array": ErrorSpec(
        TileTypeError,
        "`{parameter}` is a {kind}, not an array to write to",
        "pass a NumPy array of shape {shape} and dtype {dtype}",
    ),
    "out-dtype": ErrorSpec(
        TileTypeError,
        "`{parameter}` has dtype {actual}, but `{kernel}` writes {expected}",
        "pass an array of dtype {expected}",
    ),
    "out-shape": ErrorSpec(
        TileShapeError,
        "`{parameter}` has shape {actual}, but `{kernel}` writes shape {expected}",
        "pass an array of shape {expected}",
    ),
    "out-read-only": ErrorSpec(
        TileTypeError,
        "`{parameter}` is read-only, but `{kernel}` writes to it",
        "pass an array that can be written, for example a copy",
    ),
    "out-shared": ErrorSpec(
        TileTypeError,
        "`{first}` and `{second}` share memory, and `{kernel}` writes to both",
        "pass arrays of their own, for example `{second}.copy()`",
    ),
    "out-repeats": ErrorSpec(
        TileTypeError,
        "elements of `{parameter}` lie on top of each other (strides {strides}), and `{kernel}` writes to it",
        "pass an array whose elements are distinct, for example a copy",
    ),
    "bind-overlap": ErrorSpec(
        TileTypeError,
        "arrays of this call overlap, or do not suit `{kernel}` as they are, so that each call would have to copy them",
        "bind arrays of their own, row by row; or call `{kernel}` itself, which copies what it must",
    ),
    # Compiling
    "arch-unknown": ErrorSpec(
        TileUnsupportedError, "there is no architecture `{arch}`", "pass one of {known}, or leave it out"
    ),
    "spec-invalid": ErrorSpec(
        TileTypeError,
        "`{parameter}` is specified by a {kind}",
        "give an array, `tile.spec(shape, dtype)`, a number type (`int`, `float`, `bool`) or a number",
    ),
    "spec-size": ErrorSpec(
        TileTypeError,
        "axis {axis} of the spec of `{parameter}` is {size!r}",
        'give a size of at least 0, a name such as `"M"`, or None where it is not known',
    ),
    "level-unknown": ErrorSpec(
        TileUnsupportedError, "a kernel compiled for `{arch}` has no IR of level `{level}`", "ask for one of {known}"
    ),
    "text-unavailable": ErrorSpec(
        TileUnsupportedError,
        "a kernel compiled for `{arch}` has no {what}",
        "compile for {archs}, or read one of {known}",
    ),
    "disassembler-missing": ErrorSpec(
        TileRuntimeError,
        "machine code for GPUs is shown by nvdisasm, and {reason}",
        "run `pip install --upgrade nvidia-cuda-nvdisasm`",
    ),
    # The emulator
    "emulate-arch": ErrorSpec(
        TileUnsupportedError,
        "`emulate` runs the GPU IR of a kernel, and there is none for `{arch}`",
        'pass the architecture of a GPU, for example `arch="sm_90"`, or call `{kernel}` itself',
    ),
    "emulate-device": ErrorSpec(
        TileRuntimeError,
        "`{parameter}` is a {kind} on a CUDA device, and the emulator runs on the CPU",
        "copy it to the CPU first, for example `{parameter}.cpu()` or `{parameter}.get()`",
    ),
    "emulate-plan": ErrorSpec(
        TileUnsupportedError,
        "there is no plan {plan!r} for this call of `{kernel}`: {count}",
        "pass {known}, or leave it out for the plan that a launch would take",
    ),
    # Environment
    "option-invalid": ErrorSpec(
        TileRuntimeError, "the environment variable {name} is {value!r}", "set it to {wanted}, or unset it"
    ),
    # The command line
    "command-unknown": ErrorSpec(TileSyntaxError, "there is no command `{command}`", "{hint}"),
    "command-option": ErrorSpec(TileSyntaxError, "`{command}` does not take `{option}`", "{hint}"),
    "command-line": ErrorSpec(
        TileSyntaxError, "`{command}`: {message}", "`{command} --help` says what each argument is"
    ),
    "command-target": ErrorSpec(
        TileSyntaxError, "`{target}` does not say which kernel of which file", "write FILE.py:KERNEL"
    ),
    "command-file": ErrorSpec(
        TileRuntimeError, "cannot load `{file}`: {reason}", "name a Python file that runs by itself"
    ),
    "command-kernel": ErrorSpec(TileTypeError, "`{file}` has no kernel `{kernel}`", "name one of its kernels: {known}"),
    "command-model": ErrorSpec(
        TileTypeError,
        "`{file}` has no kernel, formula, graph, module or model of PyTorch called `{name}`",
        "name one of those that it has: {known}",
    ),
    "command-saved": ErrorSpec(
        TileUnsupportedError,
        "`{file}` is a saved module: it has code and weights, but no formula that its results could be compared with",
        "check what it was made of: `tiledsl check FILE.py:NAME`, or the model's `.onnx` file",
    ),
    "command-check-kernel": ErrorSpec(
        TileUnsupportedError,
        "a kernel is checked on the CPU, where every access to memory is seen, not for {arch}",
        "leave `--arch` out; `tiledsl emulate FILE.py:NAME --arch {arch}` runs the code for that GPU, with its races",
    ),
    "command-package": ErrorSpec(
        TileRuntimeError, "{what} needs the package `{package}`, which is not installed", "{install}"
    ),
    "command-examples": ErrorSpec(
        TileTypeError,
        "`{model}`, a model of PyTorch, does not say what it is called with",
        'say so, an argument at a time: `--spec "f32[B,3,224,224]"`',
    ),
    "command-batch": ErrorSpec(
        TileShapeError,
        "`--batch` sets the size `{size}`, but {what}",
        "{advice}",
    ),
    "command-dtype": ErrorSpec(
        TileTypeError,
        "`--dtype {dtype}` was given, but {what} has dtypes of its own",
        "leave `--dtype` out, or make one with other dtypes",
    ),
    "command-against": ErrorSpec(
        TileUnsupportedError, "`{model}` cannot be run by `{against}`: {reason}", "leave it out of `--against`"
    ),
    "command-device": ErrorSpec(
        TileRuntimeError,
        "there is no CUDA device that PyTorch could make arrays on",
        "run it on the CPU: `--device cpu`",
    ),
    "command-page": ErrorSpec(
        TileRuntimeError, "the page `{file}` cannot be written: {reason}", "name a file in a folder that can be written"
    ),
    "command-profile-device": ErrorSpec(
        TileRuntimeError,
        "there is no GPU here whose kernels could be timed: {reason}",
        "profile on the CPU (`--device cpu`); `tiledsl audit` says without a GPU how long kernels should take on one",
    ),
    "command-profile-place": ErrorSpec(
        TileTypeError,
        "`{file}` was built for `{arch}`, and cannot be timed on `{device}`",
        "choose the other `--device`, or save the module for this one",
    ),
    "command-audit": ErrorSpec(TileTypeError, "nothing of `{file}` can be audited: {reasons}", "{hint}"),
    "command-spec": ErrorSpec(
        TileSyntaxError,
        "`{text}` is no specification of an argument",
        "write a dtype and sizes, `f32[M,K]` or `bf16[1024,64]` ({known}), or `int`, `float` or `bool`",
    ),
    "command-new-name": ErrorSpec(
        TileSyntaxError,
        "`{name}` is no name for a kernel",
        "write a name of Python in small letters, for example `tiledsl new row_norm`",
    ),
    "command-new-exists": ErrorSpec(
        TileRuntimeError,
        "`{file}` is there already, and is left as it is",
        "choose another name, or another folder with `--folder`",
    ),
    "command-size": ErrorSpec(
        TileSyntaxError, "`{text}` does not set a size", "write NAME=NUMBER, for example `--size M=128`"
    ),
    "command-size-open": ErrorSpec(
        TileShapeError,
        "arguments are drawn for `{text}`, but it leaves open how much `{size}` is",
        "{advice}",
    ),
    "command-emit": ErrorSpec(
        TileUnsupportedError,
        "a kernel compiled for `{arch}` has no `{emit}`",
        "choose `--emit` from {known}",
    ),
    "command-constant": ErrorSpec(
        TileSyntaxError, "`{text}` does not set a compile-time parameter", "write NAME=VALUE, for example `BM=128`"
    ),
}
