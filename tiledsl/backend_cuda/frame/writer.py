"""C text, line by line, with indentation."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

_INDENT = "    "


class Writer:
    """Collects the lines of one function body."""

    def __init__(self, depth: int = 0) -> None:
        self.lines: list[str] = []
        self.depth = depth

    def line(self, text: str) -> None:
        """One line at the current depth."""
        self.lines.append(_INDENT * self.depth + text if text else "")

    @contextmanager
    def block(self, head: str, tail: str = "}") -> Generator[None]:
        """`head {`, what is written inside, and `tail`."""
        self.line(f"{head} {{" if head else "{")
        self.depth += 1
        yield
        self.depth -= 1
        self.line(tail)

    @contextmanager
    def unrolled(self, variable: str, count: int) -> Generator[None]:
        """A loop over 0 .. count-1 that the compiler writes out, so that arrays indexed by `variable` are registers."""
        self.line("#pragma unroll")
        with self.block(f"for (int {variable} = 0; {variable} < {count}; ++{variable})"):
            yield

    def text(self) -> str:
        return "\n".join(self.lines)
