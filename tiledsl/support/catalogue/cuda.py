"""Messages of the CUDA runtime: drivers, devices, arrays on devices, faults."""

from tiledsl.support.errors import (
    ErrorSpec,
    TileResourceError,
    TileRuntimeError,
    TileTypeError,
    TileUnsupportedError,
)

ENTRIES: dict[str, ErrorSpec] = {
    # The driver
    "cuda-no-bindings": ErrorSpec(
        TileRuntimeError,
        "the arrays are on a CUDA device, but the package `cuda-bindings` is not installed",
        "run `pip install cuda-bindings nvidia-cuda-nvrtc`",
    ),
    "cuda-no-driver": ErrorSpec(
        TileRuntimeError,
        "there is no NVIDIA driver here ({reason})",
        "run this on a machine with an NVIDIA driver, or pass arrays in CPU memory",
    ),
    "cuda-no-device": ErrorSpec(
        TileRuntimeError,
        "the NVIDIA driver finds no device",
        "check `nvidia-smi` and the environment variable CUDA_VISIBLE_DEVICES, or pass arrays in CPU memory",
    ),
    "cuda-device-number": ErrorSpec(
        TileRuntimeError,
        "there is no CUDA device {device}: this process sees {count}",
        "use a device from 0 to {last}, or make more of them visible by CUDA_VISIBLE_DEVICES",
    ),
    "cuda-driver-old": ErrorSpec(
        TileRuntimeError,
        "the driver (for CUDA {version}) cannot load `{kernel}`, compiled for {arch}: {status}",
        "update the NVIDIA driver, or install an older `nvidia-cuda-nvrtc` (of CUDA {version})",
    ),
    "cuda-memory": ErrorSpec(
        TileResourceError,
        "device {device} has no memory left for {wanted}",
        "free arrays that are no longer needed, or pass smaller ones",
    ),
    "cuda-forked": ErrorSpec(
        TileRuntimeError,
        "this process was forked from one that uses CUDA, and CUDA does not work in a fork",
        'start processes by `multiprocessing.get_context("spawn")`',
    ),
    "cuda-call": ErrorSpec(
        TileRuntimeError,
        "the CUDA call {call} failed: {status} ({text})",
        "check the device by `nvidia-smi`; if it is well, please report this",
    ),
    "cuda-resources": ErrorSpec(
        TileResourceError,
        "device {device} cannot launch `{kernel}`: {threads} threads and {shared_bytes} bytes of shared memory "
        "in each block, {cluster} blocks in a cluster ({status})",
        "choose smaller blocks by `block=`, or fewer stages by `num_stages=`",
    ),
    "cuda-capture": ErrorSpec(
        TileRuntimeError,
        "`{kernel}` was called while a CUDA graph is captured, and it is not ready for that ({status})",
        "call it once with such arguments before the capture: the first call compiles and loads it",
    ),
    "cuda-stream": ErrorSpec(
        TileRuntimeError,
        "the stream {stream} is not one of device {device}, on which `{kernel}` runs ({status})",
        "pass a stream of the device that the arrays are on",
    ),
    "cuda-programs": ErrorSpec(
        TileUnsupportedError,
        "`{kernel}` would need {blocks} blocks of threads, and a CUDA device launches {most} at most",
        "choose larger blocks by `block=`, or split the arrays",
    ),
    "cuda-tensor-map": ErrorSpec(
        TileUnsupportedError,
        "`{kernel}` was compiled to copy `{tensor}` by TMA, which cannot be: {reason}",
        "pass a contiguous copy whose rows start at multiples of 16 bytes",
    ),
    "cuda-fault": ErrorSpec(
        TileRuntimeError,
        "{status}: {text}; the device stopped in one of the kernels that were running: {kernels}",
        "set the environment variable TILEDSL_SYNC to 1, which waits for each kernel and so names the one; "
        "the process must be started anew",
    ),
    "cuda-fault-kernel": ErrorSpec(
        TileRuntimeError,
        "{status}: {text}; the device stopped in `{kernel}`",
        "check the indices of its gathers, scatters and shifted blocks; the process must be started anew",
    ),
    # Arrays on devices
    "array-mixed": ErrorSpec(
        TileTypeError,
        "`{first}` is on CUDA device {device}, but `{second}` is in CPU memory",
        "move one of them, for example `{second}.cuda()` or `{first}.cpu()`",
    ),
    "array-devices": ErrorSpec(
        TileTypeError,
        "`{first}` is on CUDA device {first_device}, but `{second}` is on device {second_device}",
        "move one of them, for example `{second}.to({first}.device)`",
    ),
    "array-requires-grad": ErrorSpec(
        TileTypeError,
        "`{parameter}` requires a gradient, and a kernel has none",
        "pass `{parameter}.detach()`, or call the kernel under `torch.no_grad()`",
    ),
    "array-lazy": ErrorSpec(
        TileTypeError,
        "`{parameter}` is a lazily negated view: its memory holds the numbers with the other sign",
        "pass `{parameter}.resolve_neg()`",
    ),
    "array-misaligned": ErrorSpec(
        TileTypeError,
        "`{parameter}` starts at an address that is no multiple of the size of its elements, {size} bytes",
        "pass a copy, for example `{parameter}.copy()`",
    ),
    "array-strides": ErrorSpec(
        TileTypeError,
        "`{parameter}` has strides of {strides} bytes, which are no whole elements of {dtype}",
        "pass a copy, for example `{parameter}.copy()`",
    ),
    "array-immutable": ErrorSpec(
        TileTypeError,
        "`{parameter}` is a jax array, which cannot be changed, and `{kernel}` writes to it",
        "let the kernel make its output by `tile.empty`: it is given as an array that `jax.dlpack.from_dlpack` takes",
    ),
    "array-overlap": ErrorSpec(
        TileTypeError,
        "`{first}`, which `{kernel}` writes to, shares memory with `{second}`",
        "pass a copy of one of them",
    ),
    "argument-place": ErrorSpec(
        TileTypeError,
        "`{kernel}` was compiled for `{arch}`, but its arguments are {place}",
        'call the kernel itself, which compiles what it needs, or compile it for `arch="{fitting}"`',
    ),
}
