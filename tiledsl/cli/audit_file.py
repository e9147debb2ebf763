"""All of a Python file that can be audited: kernels and formulas, graphs and modules, what loses most time first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiledsl.api import Kernel
from tiledsl.api.graphs.fused import BuiltGraph, FusedGraph
from tiledsl.api.graphs.graph import Graph
from tiledsl.api.reports.text_tables import columns, paragraph
from tiledsl.cli.arguments import parse_spec
from tiledsl.cli.as_json import audit_data
from tiledsl.support.errors import TileError, fail
from tiledsl.support.progress import Progress

if TYPE_CHECKING:
    from tiledsl.api.pages.audit import Audit

HEAD = ("what", "kernels", "predicted", "floor", "ratio", "lost")


@dataclass(frozen=True)
class Arguments:
    """Of kernels: those of all, those of single kernels by name, and compile-time ones by name."""

    common: tuple[object, ...] = ()
    of_kernels: Mapping[str, tuple[object, ...]] = field(default_factory=dict[str, "tuple[object, ...]"])
    constants: Mapping[str, object] = field(default_factory=dict[str, object])

    @staticmethod
    def parse(texts: Sequence[str], constants: Mapping[str, object]) -> Arguments:
        """`f16[4096,4096]` is for all kernels, `gemm:f16[4096,4096]` for `gemm` alone. Raises TileSyntaxError."""
        common: tuple[object, ...] = ()
        of_kernels: dict[str, tuple[object, ...]] = {}
        for text in texts:
            name, colon, spec = (part.strip() for part in text.rpartition(":"))
            if colon:
                of_kernels[name] = (*of_kernels.get(name, ()), parse_spec(spec))
            else:
                common = (*common, parse_spec(spec))
        return Arguments(common, of_kernels, constants)

    def of(self, kernel: str) -> tuple[object, ...]:
        """The arguments of a kernel."""
        return self.of_kernels.get(kernel, self.common)


@dataclass(frozen=True)
class FileAudit:
    """`audits` by name, what loses most time first; `left_out`: why others have none. `str()` is for people."""

    file: Path
    audits: dict[str, Audit]
    left_out: dict[str, str]

    def data(self) -> dict[str, Any]:
        """The same for scripts."""
        audits = {name: audit_data(audit) for name, audit in self.audits.items()}
        return {"file": str(self.file), "audits": audits, "left_out": self.left_out}

    def __str__(self) -> str:
        rows = [HEAD, *(_row(name, audit) for name, audit in self.audits.items())]
        lines = [f"{self.file}", *columns(rows)]
        for name, reason in self.left_out.items():
            lines += paragraph(f"left out: {name}: {reason}", 2, 4)
        texts: list[str] = []
        for name, audit in self.audits.items():
            text = str(audit)
            texts.append(text if audit.name == name else f"{name}: {text}")
        return "\n\n".join(["\n".join(lines), *texts])


def _row(name: str, audit: Audit) -> tuple[str, ...]:
    runs = str(sum(kernel.runs for kernel in audit.kernels))
    times = (audit.predicted, audit.floor, audit.predicted - audit.floor)
    predicted, floor, lost = (f"{seconds * 1e6:.1f} us" for seconds in times)
    return name, runs, predicted, floor, f"{audit.ratio:.2f}", lost


def audit_names(file: Path, names: Mapping[str, object], arguments: Arguments, arch: str) -> FileAudit:
    """Audits what a file defines. Raises TileTypeError where nothing of it can be audited."""
    audits: dict[str, Audit] = {}
    left_out: dict[str, str] = {}
    found = dict(_auditable(names))
    kernels = [name for name, value in found.items() if isinstance(value, Kernel)]
    for name in arguments.of_kernels:
        if name not in kernels:
            known = ", ".join(f"`{kernel}`" for kernel in kernels) or "it has none"
            fail("command-kernel", None, file=file, kernel=name, known=known)
    progress = Progress(f"auditing {file.name}", len(found))
    for name, value in found.items():
        made = _audit(name, value, arguments, arch)
        if isinstance(made, TileError):
            left_out[name] = made.message
        else:
            audits[name] = made
        progress.step()
    if not audits:
        reasons = "; ".join(f"`{name}`: {reason}" for name, reason in left_out.items())
        hint = "decorate a function with `@tile.kernel`, or name what `tiledsl.trace` gives"
        if left_out:
            alone = f'`--spec "{next(iter(left_out))}:f16[4096,4096]"`'
            hint = f'say what kernels are given, in order: `--spec "f16[4096,4096]"`, or {alone} for one alone'
        fail(
            "command-audit", None, file=file, reasons=reasons or "it has no kernel, formula, graph or module", hint=hint
        )
    worst_first = sorted(audits.items(), key=lambda pair: pair[1].floor - pair[1].predicted)
    return FileAudit(file, dict(worst_first), left_out)


def _auditable(names: Mapping[str, object]) -> Iterator[tuple[str, Any]]:
    """Kernels that the file itself has, and whatever graphs it names; nothing twice."""
    seen: set[int] = set()
    for name, value in names.items():
        if _is_auditable(value, names.get("__name__")) and id(value) not in seen:
            seen.add(id(value))
            yield name, value


def _is_auditable(value: object, module: object) -> bool:
    if isinstance(value, Kernel):
        return value.__wrapped__.__module__ == module  # those of other files come with them
    return isinstance(value, (Graph, FusedGraph, BuiltGraph))


def _audit(name: str, value: Any, arguments: Arguments, arch: str) -> Audit | TileError:
    """The audit, or what stands in its way."""
    try:
        if isinstance(value, Kernel):
            constants = {key: v for key, v in arguments.constants.items() if key in value.parameters.names}
            return value.audit(*arguments.of(name), arch=arch, **constants)
        return FusedGraph(value).audit(arch) if isinstance(value, Graph) else value.audit(arch)
    except TileError as error:
        return error
