"""The CPU tables and what is read off a Linux machine."""

from dataclasses import replace
from pathlib import Path

import pytest

from tiledsl.ir.dtypes import bf16, f16, f32, f64, i8, i32, i64, u8
from tiledsl.passes.machine import (
    CORE,
    DOUBLE_CORE,
    MACHINES,
    CpuMachine,
    cache_sizes,
    cpu_features,
    detect,
    host,
    named,
    products_in_lane,
)
from tiledsl.support.errors import TileUnsupportedError

ZEN4 = (
    "processor\t: 0\n"
    "flags\t\t: fpu avx avx2 bmi1 bmi2 f16c fma popcnt sse4_1 sse4_2 avx512f avx512bw avx512cd avx512dq avx512vl"
    " avx512_bf16 abm\n"
)
GRAVITON = "processor\t: 0\nFeatures\t: fp asimd asimdhp asimddp bf16\n"


def linux(root: Path, cpuinfo: str, caches: list[tuple[str, str, str]]) -> Path:
    """A fake file system root with a /proc/cpuinfo and the given (level, type, size) caches."""
    (root / "proc").mkdir()
    (root / "proc" / "cpuinfo").write_text(cpuinfo)
    for index, entry in enumerate(caches):
        directory = root / "sys" / "devices" / "system" / "cpu" / "cpu0" / "cache" / f"index{index}"
        directory.mkdir(parents=True)
        for name, text in zip(("level", "type", "size"), entry):
            (directory / name).write_text(text + "\n")
    return root


def test_a_linux_machine_is_read(tmp_path: Path) -> None:
    caches = [("1", "Data", "48K"), ("1", "Instruction", "64K"), ("2", "Unified", "1024K"), ("3", "Unified", "32M")]
    machine = detect(linux(tmp_path, ZEN4, caches), "x86_64", cores=6)
    assert (machine.vector_bytes, machine.vector_registers) == (64, 32)
    assert (machine.l1_bytes, machine.l2_bytes, machine.l3_bytes) == (48 << 10, 1 << 20, 32 << 20)
    assert machine.cores == 6
    assert {"avx512bf16", "lzcnt", "bmi", "sse4.2"} <= machine.features
    assert "fpu" not in machine.features


@pytest.mark.parametrize(
    ("vendor", "family", "speeds"),
    [("AuthenticAMD", "26", DOUBLE_CORE), ("AuthenticAMD", "25", CORE), ("GenuineIntel", "30", CORE), ("", "", CORE)],
)
def test_multipliers_follow_from_the_family(tmp_path: Path, vendor: str, family: str, speeds: object) -> None:
    text = f"vendor_id\t: {vendor}\ncpu family\t: {family}\n" + ZEN4 if vendor else ZEN4
    assert detect(linux(tmp_path, text, []), "x86_64", cores=2).speeds == speeds


def test_a_family_without_wide_vectors_has_none(tmp_path: Path) -> None:
    text = "vendor_id : AuthenticAMD\ncpu family : 26\nflags : fpu sse4_1 avx\n"
    assert detect(linux(tmp_path, text, []), "x86_64", cores=1).speeds == CORE


def test_what_is_multiplied_together() -> None:
    assert [products_in_lane(i32, i8, i8), products_in_lane(i32, u8, u8), products_in_lane(f32, bf16, bf16)] == [
        4,
        4,
        2,
    ]
    others = [(i64, i8, i8), (i32, i8, u8), (f64, bf16, bf16), (f32, f16, f16), (f32, f32, f32)]
    assert {products_in_lane(*each) for each in others} == {1}
    plain = MACHINES["avx512"]
    vnni, half = (replace(plain, features=plain.features | {name}) for name in ("avx512vnni", "avx512bf16"))
    assert [machine.takes_together(4) for machine in (plain, vnni, half)] == [False, True, False]
    assert [machine.takes_together(2) for machine in (plain, vnni, half)] == [False, False, True]
    short = replace(MACHINES["avx2"], features=frozenset({"avxvnni"}))
    assert short.takes_together(4)
    assert all(machine.takes_together(1) for machine in MACHINES.values())


def test_an_arm_machine_without_a_third_cache(tmp_path: Path) -> None:
    caches = [("1", "Data", "64K"), ("2", "Unified", "1M")]
    machine = detect(linux(tmp_path, GRAVITON, caches), "aarch64", cores=2)
    assert (machine.vector_bytes, machine.l3_bytes) == (16, 0)
    assert {"neon", "fullfp16", "dotprod", "bf16"} <= machine.features


@pytest.mark.parametrize(
    ("architecture", "table"), [("x86_64", "avx2"), ("AMD64", "avx2"), ("arm64", "neon"), ("riscv64", "generic")]
)
def test_without_proc_and_sys_a_table_is_used(tmp_path: Path, architecture: str, table: str) -> None:
    machine = detect(tmp_path, architecture, cores=3)
    base = MACHINES[table]
    assert machine == CpuMachine(
        "cpu", base.vector_bytes, base.vector_registers, base.l1_bytes, base.l2_bytes, base.l3_bytes, 3, base.features,
        base.speeds,
    )  # fmt: skip


def test_an_old_cpu_is_not_taken_for_avx2(tmp_path: Path) -> None:
    assert detect(linux(tmp_path, "flags : fpu sse4_1 avx\n", []), "x86_64", cores=1).vector_bytes == 16


def test_unreadable_caches_are_left_out(tmp_path: Path) -> None:
    linux(tmp_path, ZEN4, [("1", "Data", "many"), ("2", "Unified", "0K"), ("3", "Unified", "4096")])
    assert cache_sizes(tmp_path / "sys" / "devices" / "system" / "cpu" / "cpu0" / "cache") == {3: 4096}


def test_a_cpuinfo_without_flags_has_no_features(tmp_path: Path) -> None:
    assert cpu_features(linux(tmp_path, "processor : 0\n", []) / "proc" / "cpuinfo") == frozenset()


def test_the_host_is_sane() -> None:
    machine = host()
    assert machine is named("cpu")
    assert machine.cores >= 1
    assert machine.vector_bytes in (16, 32, 64)
    assert 4 << 10 <= machine.l1_bytes <= machine.l2_bytes


def test_lanes() -> None:
    machine = named("avx512")
    assert [machine.lanes(dtype) for dtype in (f64, f32, bf16)] == [8, 16, 32]


def test_an_unknown_name() -> None:
    with pytest.raises(TileUnsupportedError, match="z80"):
        named("z80")
