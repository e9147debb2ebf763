"""Which device and which streams a call with arrays on CUDA devices is for."""

from __future__ import annotations

from collections.abc import Sequence

from tiledsl.runtime.arrays.cuda_arrays import DeviceView
from tiledsl.runtime.arrays.frameworks import Framework
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import fail


def streams_of(views: Sequence[DeviceView], device: int, stream: int | None) -> tuple[Framework, int, tuple[int, ...]]:
    """Whose outputs are made, the stream to launch on (`stream`, if given), and others that the arrays are used on."""
    frameworks = list({view.framework.name: view.framework for view in views}.values())
    main = next((f for f in frameworks if f.name != "others"), frameworks[0])
    streams = [f.stream(device) for f in (main, *frameworks) if f.name != "others"]
    streams += [view.stream for view in views if view.stream is not None]
    streams = streams or [main.stream(device)]
    first = streams[0] if stream is None else stream
    return main, first, tuple(dict.fromkeys(other for other in streams if other != first))


def one_device(placed: Sequence[tuple[str, DeviceView]]) -> int:
    """The device that arrays, each with the name of its parameter, are on. Raises TileTypeError if there are two."""
    name, first = placed[0]
    for other, view in placed:
        if view.device != first.device:
            fail(
                "array-devices", caller_location(),
                first=name, first_device=first.device, second=other, second_device=view.device,
            )  # fmt: skip
    return first.device
