"""Begins work with a device while everything else is imported: both take more than half a second.

    python with_device.py 0 MODULE IMPORTED...

It is run by its path, since to import it would be to import the package first. `main` of the module does the rest.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any


def begin_work(number: int) -> None:
    """Starts the driver on a device. Who needs it says what is wrong."""
    with suppress(Exception):
        driver: Any = import_module("cuda.bindings.driver")
        driver.cuInit(0)
        _, device = driver.cuDeviceGet(number)
        driver.cuDevicePrimaryCtxRetain(device)


def main(number: str, runs: str, imports: Sequence[str]) -> None:
    """Imports modules meanwhile, and runs `main` of one."""
    threading.Thread(target=begin_work, args=(int(number),), daemon=True).start()
    for wanted in imports:
        with suppress(Exception):  # who needs it says so
            import_module(wanted)
    import_module(runs).main()


if __name__ == "__main__":
    folder = Path(__file__).resolve().parent
    sys.path[:] = [path for path in sys.path if Path(path).resolve() != folder]
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
