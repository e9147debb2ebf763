"""Entries as lines: what is whole reads back, and what is not is never taken for anything."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fakes.tuning_records import DEVICE, QUESTION, TEXT, search, trial
from tiledsl.autotune.records.lines import FORMAT, Skipped, checksum, line_of, read_lines
from tiledsl.autotune.records.record import Entry, Trial

ENTRIES: list[Entry] = [
    TEXT,
    trial(),
    trial(state="crash"),
    trial(question=DEVICE),
    search(),
    Trial(QUESTION, 'of "words", and\nlines', "refused"),
]


@pytest.mark.parametrize("entry", ENTRIES)
def test_whole_lines_read_back(entry: Entry) -> None:
    line = line_of(entry)
    assert line.count(b"\n") == 1
    assert list(read_lines(line, "f")) == [(line, entry)]


@given(st.sampled_from(ENTRIES), st.data())
def test_a_line_with_another_byte_is_none(entry: Entry, data: st.DataObject) -> None:
    line = bytearray(line_of(entry)[:-1])
    place = data.draw(st.integers(0, len(line) - 1))
    line[place] ^= data.draw(st.integers(1, 255))
    found = [found for _, found in read_lines(bytes(line) + b"\n", "f")]
    assert all(isinstance(one, Skipped) for one in found)


@given(st.sampled_from(ENTRIES), st.data())
def test_a_line_that_was_cut_is_none_and_costs_no_other(entry: Entry, data: st.DataObject) -> None:
    whole = line_of(TEXT)
    cut = line_of(entry)[: data.draw(st.integers(1, len(line_of(entry)) - 1))]
    (_, first), (_, last) = read_lines(whole + cut, "f")
    assert first == TEXT
    assert last == Skipped("f", 2, "cut")
    (_, damaged), (_, next_one) = read_lines(cut + b"\n" + whole, "f")
    assert isinstance(damaged, Skipped)
    assert next_one == TEXT


def test_another_version_is_said() -> None:
    payload = line_of(TEXT)[:-1].partition(b" ")[2].replace(str(FORMAT).encode(), str(FORMAT + 1).encode(), 1)
    line = checksum(payload) + b" " + payload + b"\n"
    assert list(read_lines(line, "f")) == [(line, Skipped("f", 1, "of another version"))]


@pytest.mark.parametrize(
    "text", ['{"kind":"trial"}', '{"kind":"nothing"}', "[]", "{", '{"kind":"program","program":1}']
)
def test_whole_lines_that_say_nothing(text: str) -> None:
    payload = f"{FORMAT} {text}".encode()
    line = checksum(payload) + b" " + payload + b"\n"
    assert list(read_lines(line, "f")) == [(line, Skipped("f", 1, "damaged"))]
