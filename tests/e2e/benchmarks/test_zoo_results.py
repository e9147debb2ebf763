"""What a run of the zoo on a device says, with made-up times and no device."""

from __future__ import annotations

import pytest

from benchmarks.gpu import __main__ as command_line
from benchmarks.gpu import zoo
from benchmarks.gpu.results import Results
from benchmarks.zoo.cases import families


def row(what: str, measured: float, predicted: float, peer: float) -> dict[str, object]:
    met = zoo.TRUSTED[0] <= measured / predicted <= zoo.TRUSTED[1]
    times = {zoo.OURS: {"median": measured}}
    return {"what": what, "family": "folds", "times": times, "predicted": predicted, "peer": peer, "met": met}


def test_times_that_were_not_predicted_are_listed_as_faults() -> None:
    results = Results("zoo", "The zoo", zoo.COLUMNS, {})
    results.numbers += [
        row("sum", 1e-5, 1e-5, 2.0),
        row("slow", 3e-5, 1e-5, 0.5),
        row("fast", 1e-5, 2e-5, float("nan")),
    ]
    zoo.summarise(results)
    assert results.notes == [
        "folds: geometric mean 1.000 of the best peer, least 0.500",
        "predictions: mean absolute log error 0.597, 2 of 3 outside of (0.7, 1.4)",
        "fault of the model or of the code: slow took 3.00 of what was predicted",
        "fault of the model or of the code: fast took 0.50 of what was predicted",
    ]


def test_a_family_is_one_of_those_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert "attention" in families()
    for arguments, message in (
        (["zoo", "--family", "reptiles"], "invalid choice: 'reptiles'"),
        (["gemm", "--family", "attention"], "--family is for the zoo alone"),
        (["gemm", "--workers", "2"], "--workers is for the zoo alone"),
        (["zoo", "--family", "attention", "--save"], "give no --only and no --family"),
    ):
        with pytest.raises(SystemExit):
            command_line.main(arguments)
        assert message in capsys.readouterr().err
