"""What was found wrong while a function ran: errors, each said once for the ops that it is between."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tiledsl.ir.core import Op
from tiledsl.support.errors import Label, TileError, make_error


class Findings:
    """Errors of the catalogue, with how many elements each is true of. Kept in the order in which they were met."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, Op, Op | None], list[int]] = {}
        self._first: dict[tuple[str, Op, Op | None], tuple[str, Mapping[str, object]]] = {}

    def add(self, code: str, op: Op, other: Op | None, label: str, count: int, names: Mapping[str, object]) -> None:
        """Notes an error at `op`; `other` is its other side, of which `label` says what it is."""
        key = (code, op, other)
        if other is not None and (code, other, op) in self._found:
            key = (code, other, op)  # the same two, which met the other way round
        self._found.setdefault(key, [0])[0] += int(count)
        self._first.setdefault(key, (label, dict(names)))

    @property
    def codes(self) -> set[str]:
        """Those of the errors so far."""
        return {code for code, _, _ in self._found}

    def drop(self, codes: Collection[str]) -> list[TileError]:
        """Takes the errors with these codes out."""
        dropped = [error for error in self.errors if error.code in codes]
        self._found = {key: count for key, count in self._found.items() if key[0] not in codes}
        return dropped

    def __bool__(self) -> bool:
        return bool(self._found)

    @property
    def errors(self) -> list[TileError]:
        """All of them, not raised."""
        errors: list[TileError] = []
        for (code, op, other), (count,) in self._found.items():
            label, names = self._first[code, op, other]
            labels = [Label(other.location, label)] if other is not None and other is not op else []
            notes = [f"so it is with {count} elements"] if count > 1 else []
            errors.append(make_error(code, op.location, labels=labels, notes=notes, **names))  # pyright: ignore[reportArgumentType]  # no name is `labels` or `notes`
        return errors
