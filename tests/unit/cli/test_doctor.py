"""`tiledsl doctor`: what it finds here, and where something is missing or broken."""

from __future__ import annotations

import json
import re
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import numpy as np
import pytest

from tests.support.fakes.fake_driver import Status, fake_driver
from tiledsl.backend_cuda.build import nvrtc
from tiledsl.cli.commands import doctor
from tiledsl.cli.commands.doctor import PACKAGES, Finding, doubled, examined, page, release
from tiledsl.cli.main import main
from tiledsl.support.errors import make_error

ROOT = Path(__file__).resolve().parents[3]


def found(subject: str) -> Finding:
    """What is found out about one thing."""
    (one,) = (finding for finding in examined() if finding.subject == subject)
    return one


def gpus() -> list[tuple[str, str, str]]:
    return [(f.subject, f.state, f.text) for f in examined() if f.subject.startswith("GPU")]


def test_here(capsys: pytest.CaptureFixture[str]) -> None:
    with fake_driver(devices=0):
        assert main(["doctor"]) == 0
        text = capsys.readouterr().out
        assert main(["doctor", "--json"]) == 0
        data = json.loads(capsys.readouterr().out)
    assert re.search(r"^ok +kernels on the CPU .* threads", text, re.M)
    assert re.search(r"^ok +disk cache ", text, re.M)
    assert re.search(r"^ok +code for GPUs +NVRTC .* sm_80", text, re.M)
    assert re.search(r"^absent +GPU +the NVIDIA driver finds no device", text, re.M)
    assert set(data) == {"tiledsl", "python", "platform", "findings"}
    assert [f["subject"] for f in data["findings"]][:4] == ["kernels on the CPU", "disk cache", "code for GPUs", "GPU"]
    assert data["findings"][2]["facts"]["architectures"][0] == "sm_80"


def test_what_is_not_there_has_a_fix() -> None:
    findings = list(examined())
    assert all(finding.fix for finding in findings if finding.state != "ok")
    assert not any(finding.fix for finding in findings if finding.state == "ok")


def test_a_setting_that_makes_no_sense(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TILEDSL_NUM_THREADS", "many")
    assert main(["doctor"]) == 1
    assert "-> set it to a whole number, at least 1, or unset it" in capsys.readouterr().out


def test_whatever_is_broken_the_rest_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(x: object) -> object:
        raise ModuleNotFoundError("No module named 'llvmlite'")

    monkeypatch.setattr(doctor, "doubled", broken)
    cpu, cache, *_ = examined()
    assert (cpu.state, cpu.text) == ("wrong", "ModuleNotFoundError: No module named 'llvmlite'")
    assert "pip install" in cpu.fix
    assert cache.state == "ok"


def test_a_wrong_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "doubled", np.copy)
    assert found("kernels on the CPU").text == "a kernel gave a wrong result"


def test_the_kernel_that_is_run() -> None:
    assert np.array_equal(doubled(np.arange(5)), [0, 2, 4, 6, 8])


def test_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILEDSL_CACHE_DIR", str(tmp_path / "new"))
    monkeypatch.setenv("TILEDSL_CACHE_SIZE_MB", "3")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "entry").write_bytes(bytes(2048))
    cache = found("disk cache")
    assert cache.state == "ok"
    assert cache.facts["limit"] == 3 << 20
    assert int(str(cache.facts["used"])) >= 2048
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("TILEDSL_CACHE_DIR", str(file))
    assert found("disk cache").state == "wrong"
    monkeypatch.setenv("TILEDSL_DISABLE_CACHE", "1")
    assert found("disk cache").state == "absent"


def test_no_nvrtc(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*arguments: object) -> None:
        raise make_error("nvrtc-missing", None, reason="it is not installed")

    monkeypatch.setattr(nvrtc, "compile_cubin", missing)
    compiler = found("code for GPUs")
    assert compiler.state == "absent"
    assert "pip install" in compiler.fix


def test_devices() -> None:
    major = int(nvrtc.nvrtc_version().split(".")[0])
    with fake_driver(devices=2, version=1000 * major + 20):
        described = f"Fake, sm_90, 132 multiprocessors, driver for CUDA {major}.2"
        assert gpus() == [("GPU 0", "ok", described), ("GPU 1", "ok", described)]
    with fake_driver(version=11080):
        ((_, state, text),) = gpus()
        assert state == "wrong"
        assert text.endswith(f"driver for CUDA 11.8: it cannot load code of NVRTC {nvrtc.nvrtc_version()}")
    with fake_driver(capability=(7, 0)):
        ((_, state, text),) = gpus()
        assert (state, "sm_70" in text) == ("wrong", True)


def test_a_driver_that_fails() -> None:
    with fake_driver(failing={"cuDeviceGetCount": Status.CUDA_ERROR_ILLEGAL_ADDRESS}):
        ((_, state, _),) = gpus()
        assert state == "wrong"


@pytest.mark.parametrize(
    ("code", "state"), [("cuda-no-bindings", "absent"), ("cuda-no-driver", "absent"), ("cuda-forked", "wrong")]
)
def test_no_driver(code: str, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> int:
        raise make_error(code, None, reason="there is no libcuda")

    monkeypatch.setattr("tiledsl.backend_cuda.driver.devices.device_count", missing)
    ((_, found_state, _),) = gpus()
    assert found_state == state


def test_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == "onnx":
            raise PackageNotFoundError(name)
        return {"torch": "2.4.1+cpu"}.get(name, "99.0")

    monkeypatch.setattr(doctor, "version", version)
    assert (found("torch").state, "2.4.1+cpu, but 2.11 or later" in found("torch").text) == ("wrong", True)
    assert (found("onnx").state, found("onnx").fix) == ("absent", "pip install 'tiledsl[onnx]'")
    assert found("onnxruntime").state == "ok"


def test_versions_are_those_of_the_package() -> None:
    declared = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for package in PACKAGES:
        if package.least:
            assert f'"{package.name}>={".".join(map(str, package.least))}' in declared


def test_release() -> None:
    assert [release(text) for text in ("2.13.0+cpu", "1.18", "3.0rc1", "")] == [(2, 13, 0), (1, 18), (3,), ()]


def test_page() -> None:
    findings = [Finding("here", "ok", "it works"), Finding("there", "absent", "word " * 40, "get it")]
    lines = page(findings)
    assert lines[2] == "ok      here   it works"
    assert lines[-1] == " " * 15 + "-> get it"
    assert max(map(len, lines)) <= 110
