"""The speed of tiledsl on this CPU, figure by figure with the bar for each: `python -m benchmarks.cpu`.

Ratios are to NumPy within this run, both sides on two threads, medians of calls in turns; results are checked first.
`--save` keeps the run in benchmarks/results; `python -m benchmarks.report` makes docs/performance.md of what is there.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from benchmarks import emulation, irregular, small_products, start_up, throughput
from benchmarks.figures import MOST_LOAD, Figure, describe_run, other_load, save

CASES: dict[str, Callable[[], Figure]] = {
    **{
        name: lambda make=make: throughput.compare(make())
        for name, make in (throughput.CASES | small_products.CASES | irregular.CASES).items()
    },
    **start_up.CASES,
    **emulation.CASES,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help="what to measure (default: all): " + ", ".join(CASES))
    parser.add_argument("--save", action="store_true", help="keep the run in benchmarks/results")
    arguments = parser.parse_args()
    chosen: list[str] = arguments.cases or list(CASES)
    if unknown := [name for name in chosen if name not in CASES]:
        parser.error(f"no case {', '.join(unknown)}; there are {', '.join(CASES)}")
    if arguments.save and arguments.cases:
        parser.error("--save keeps whole runs: name no cases")
    load = other_load()
    if load > MOST_LOAD:
        print(f"The machine is busy (load {load:.1f}): threads wait for each other, and ratios are not to be trusted.")
    figures: list[Figure] = []
    print(line("", "measured", "bar", ""))
    for name in chosen:
        figure = CASES[name]()
        figures.append(figure)
        print(line(figure.what, figure.value_text, figure.bar_text, "met" if figure.met else "NOT MET", figure.detail))
    if arguments.save:
        print(f"saved as {save(describe_run(figures, load))}")


def line(what: str, value: str, bar: str, verdict: str, detail: str = "") -> str:
    return f"{what:40} {value:>14}  {bar:22} {verdict:8} {detail}".rstrip()


if __name__ == "__main__":
    main()
