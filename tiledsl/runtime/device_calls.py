"""Which device and which streams a call with arrays on CUDA devices is for."""

from __future__ import annotations

from collections.abc import Sequence

from tiledsl.runtime.cuda_arrays import DeviceView
from tiledsl.runtime.frameworks import Framework


def streams_of(views: Sequence[DeviceView], device: int, stream: int | None) -> tuple[Framework, int, tuple[int, ...]]:
    """Whose outputs are made, the stream to launch on (`stream`, if given), and others that the arrays are used on."""
    frameworks = list({view.framework.name: view.framework for view in views}.values())
    main = next((f for f in frameworks if f.name != "others"), frameworks[0])
    streams = [f.stream(device) for f in (main, *frameworks) if f.name != "others"]
    streams += [view.stream for view in views if view.stream is not None]
    streams = streams or [main.stream(device)]
    first = streams[0] if stream is None else stream
    return main, first, tuple(dict.fromkeys(other for other in streams if other != first))
