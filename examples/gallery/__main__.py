"""Runs the whole gallery on the CPU: every kernel is checked, and timed beside NumPy. Status 1 if a result is wrong."""

from __future__ import annotations

import argparse
import importlib
from functools import partial
from pathlib import Path

from beside_numpy import check, least_times
from entry import Entry

FOLDER = Path(__file__).parent
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in ("__init__", "__main__", "entry"))


def entry_of(name: str) -> Entry:
    """What the file says of its kernel."""
    entry = importlib.import_module(f"examples.gallery.{name}").ENTRY
    assert isinstance(entry, Entry)
    return entry


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="files of the gallery (default: all)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each side; the least time counts")
    options = parser.parse_args()
    if unknown := sorted({*options.names} - {*NAMES}):
        parser.error(f"the gallery has no {', '.join(unknown)}; it has {', '.join(NAMES)}")
    lines = [
        "",
        "beside NumPy, the least of several turns",
        f"{'kernel':20} {'size':>8} {'ms':>9} {'NumPy ms':>9} {'times':>6}",
    ]
    for name in options.names or NAMES:
        entry = entry_of(name)
        arguments = entry.arguments(entry.size)
        ours, numpys = partial(entry.kernel, *arguments), partial(entry.numpys, *arguments)
        check(name, ours(), numpys(), entry.tolerance)
        taken, beside = (1e3 * seconds for seconds in least_times(ours, numpys, rounds=options.rounds))
        lines.append(f"{name:20} {entry.size:8} {taken:9.3f} {beside:9.3f} {beside / taken:6.1f}")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
