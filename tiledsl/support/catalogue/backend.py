"""Messages of the CPU and GPU back ends."""

from tiledsl.support.errors import ErrorSpec, TileRuntimeError, TileUnsupportedError

ENTRIES: dict[str, ErrorSpec] = {
    "cuda-compile-failed": ErrorSpec(
        TileUnsupportedError,
        "the CUDA C that was made of this does not compile: {reason}",
        "this is a fault of tiledsl, please report it with the notes above; writing the line in another way may avoid"
        ' it, and `arch="cpu"` does not need it',
    ),
    "nvrtc-missing": ErrorSpec(
        TileRuntimeError,
        "NVRTC, the compiler of CUDA C, cannot be used: {reason}",
        "run `pip install cuda-bindings nvidia-cuda-nvrtc` (Linux or Windows)",
    ),
    "nvrtc-arch": ErrorSpec(
        TileUnsupportedError,
        "NVRTC {version} does not know the GPU architecture `{name}`; it knows {known}",
        "run `pip install --upgrade nvidia-cuda-nvrtc`, or compile for an architecture that it knows",
    ),
}
