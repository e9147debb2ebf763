"""The measurement of a machine without one: its kernels compile, its arithmetic is right, its row is the table's."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from benchmarks.gpu.machine import Limits, Taken, add_rows, compiled, measure_speeds, row_text
from benchmarks.gpu.machine_kernels import PROBES, Probe, probes
from benchmarks.gpu.results import Results
from tiledsl.passes import gpu_machine as table
from tiledsl.passes.gpu_machine import GpuMachine, Speeds
from tiledsl.support.errors import TileUnsupportedError

LIMITS = Limits(90, 132, 232448, 2048, 32, 50 << 20)
RATES = {
    "instructions": 128, "exponentials": 16, "mma_4": 512, "mma_2": 1024, "mma_1": 2048, "wgmma_4": 1024,
    "wgmma_2": 2048, "wgmma_1": 4096, "shared_bytes": 128, "l2_bytes": 64, "peer_bytes": 9, "latency": 1 / 700,
    "launch": 1, "doubles": 64, "mma_8": 128,
}  # fmt: skip
HERTZ = 1.5e9


def run(probe: Probe, blocks: int, turns: int, data: str) -> Taken:
    """A machine with these rates, which is slower when it is hot, and farther from memory."""
    clocks = probe.work * turns / RATES[probe.name] * (2 if data == "far" else 1)
    return Taken(clocks, clocks / HERTZ / (0.75 if data == "random" else 1))


@pytest.mark.parametrize("capability", [80, 90, 100, 120])
def test_every_probe_compiles(capability: int) -> None:
    nvrtc: Any = importlib.import_module("cuda.bindings.nvrtc")
    for probe in probes(capability).values():
        code, log = compiled(nvrtc, probe, capability)
        assert code, (probe.name, log)
        assert " 0 bytes spill stores" in log, probe.name
        assert "serialized" not in log, probe.name


def test_what_does_not_compile_says_why() -> None:
    nvrtc: Any = importlib.import_module("cuda.bindings.nvrtc")
    code, log = compiled(nvrtc, Probe("broken", "  nothing;", 32, 1), 90)
    assert not code
    assert '"nothing" is undefined' in log


def test_rates_follow_from_clocks() -> None:
    speeds = measure_speeds(LIMITS, run)
    assert speeds.products == ((4, 1024), (2, 2048), (1, 4096))
    assert (speeds.mma_share, speeds.power_limit, speeds.clock) == (0.5, 0.75, 1.5e9)
    assert (speeds.l2_bytes, speeds.l2_bytes_each, speeds.peer_bytes) == (132 * 64, 64, 9)
    assert (speeds.latency, speeds.memory_latency) == (700, 1400)
    assert (speeds.doubles, speeds.double_products) == (64, 128)
    assert speeds.measured


def test_without_warpgroups_products_are_those_of_warps() -> None:
    speeds = measure_speeds(Limits(80, 108, 166912, 2048, 32, 40 << 20), run)
    assert (speeds.products, speeds.mma_share, speeds.peer_bytes) == (((4, 512), (2, 1024), (1, 2048)), 1.0, 0)
    assert set(probes(80)) < set(probes(90)) == {probe.name for probe in PROBES}


def test_the_row_can_be_pasted() -> None:
    speeds = measure_speeds(LIMITS, run)
    text = row_text(LIMITS, speeds, 4.224e12, "NVIDIA H200")
    machine = eval(f"({text}\n)", {"_machine": table._machine, "Speeds": Speeds})[0]  # pyright: ignore[reportPrivateUsage]  # as it stands in the table
    assert isinstance(machine, GpuMachine)
    assert machine.speeds == speeds
    known = table.gpu_machine("sm_90")
    assert (machine.name, machine.multiprocessors, machine.l2_bytes) == (known.name, 132, known.l2_bytes)
    assert (machine.shared_bytes_per_block, machine.memory_bytes_per_second) == (232448, 4.8e12)


def test_figures_stand_beside_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    results = Results("machine", "The machine", ("what", "measured", "unit", "table"), {})
    add_rows(results, LIMITS, measure_speeds(LIMITS, run), 4.2e12)
    out = capsys.readouterr().out
    assert "exponentials" in out
    assert [cells[0] for cells in results.table][-1] == "copied bytes"
    assert results.table[0] == ["clock", "1.5e+09", "Hz", "1755000000.0"]


def test_an_architecture_without_a_row_names_the_command() -> None:
    with pytest.raises(TileUnsupportedError, match=r"`python -m benchmarks\.gpu machine` measures"):
        table.gpu_machine("sm_110")
