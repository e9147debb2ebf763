"""Makes functions of the loop nests of a long function; nests that are equal but for their operands share one.

LLVM takes time with the square of the loops of a function, and a loop that the front end unrolled writes the same nest
many times:

    for %i ... store %sum, %a[%i], 1                    call void @nest0(ptr %a, i64 1)
    for %j ... store %sum, %b[%j], 2          =>        call void @nest0(ptr %b, i64 2)

A call costs some nanoseconds, beside loops over blocks. So functions of few loops are left as they are: LLVM sees all
of them at once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

MOST_LOOPS = 32
"""A function of more loops is cut into functions."""

_NAME = re.compile(r"%[\w.]+")
_NAME_OR_LABEL = re.compile(r"%[\w.]+|^[\w.]+(?=:$)", re.MULTILINE)
_LABEL = re.compile(r"^([\w.]+):$", re.MULTILINE)
_LABEL_USE = re.compile(r"label (%[\w.]+)")
_DEFINITION = re.compile(r"^  (%[\w.]+) = (.*)", re.MULTILINE)
_INDEX_LITERAL = re.compile(r"(?<== )((?:add|sub|mul)(?: nsw)? i64 )(%[\w.]+|-?\d+), (%[\w.]+|-?\d+)$", re.MULTILINE)
_IN_SCRATCH = re.compile(r"getelementptr inbounds i8, ptr %scratch, i64 (\S+)")
_FLAGS = frozenset(("nsw", "nuw", "exact", "fast", "contract", "reassoc", "nnan", "ninf", "nsz", "disjoint", "nneg"))
_CASTS = frozenset(("trunc", "zext", "sext", "fptrunc", "fpext", "fptoui", "fptosi", "uitofp", "sitofp", "bitcast",
                    "ptrtoint", "inttoptr"))  # fmt: skip


def loops(text: str) -> int:
    """How many loops there are in the text of functions."""
    return text.count(" = icmp slt i64 ")


def first_type(text: str) -> str:
    """The type that a list of operands begins with: `<4 x float>` of `<4 x float> %a, %b`."""
    if text[0] not in "<{":
        return text.split(" ", 1)[0].rstrip(",")
    closing = ">" if text[0] == "<" else "}"
    return text[: text.index(closing) + 1]


def result_type(instruction: str) -> str:
    """The type of what an instruction gives."""
    operation, rest = instruction.split(" ", 1)
    while (word := rest.split(" ", 1))[0] in _FLAGS:
        rest = word[1]
    if operation in _CASTS:
        return rest.rsplit(" to ", 1)[1]
    match operation:
        case "alloca":
            return "ptr"
        case "getelementptr":
            vector = re.search(r"<(\d+) x ", rest.split(",", 1)[1])
            return f"<{vector[1]} x ptr>" if vector else "ptr"
        case "icmp" | "fcmp":
            return _shaped(first_type(rest.split(" ", 1)[1]), "i1")
        case "select":
            condition = first_type(rest)
            return first_type(rest[len(condition) :].split(", ", 1)[1])
        case "extractelement":
            return _element(first_type(rest))
        case "shufflevector":
            lanes = re.findall(r"<(\d+) x i32>", rest)[-1]
            return f"<{lanes} x {_element(first_type(rest))}>"
        case "atomicrmw":
            return first_type(rest.split(", ", 1)[1])
        case "cmpxchg" | "extractvalue" | "phi":
            raise AssertionError(f"{operation} leaves no loop nest")
        case _:
            return first_type(rest)


def _element(vector: str) -> str:
    return vector[1:-1].split(" x ", 1)[1]


def _shaped(type_: str, element: str) -> str:
    """A type of as many lanes as another."""
    return f"<{type_[1:].split(' ', 1)[0]} x {element}>" if type_.startswith("<") else element


@dataclass(frozen=True)
class _Taken:
    """A parameter: its type, its name within, and what it is at the call."""

    type: str
    inside: str
    argument: str


@dataclass(frozen=True)
class _Nest:
    """A nest as it will be called."""

    start: int
    stop: int
    body: str
    """Its text, with names in the order in which they are met, and `#0`, `#1`, ... for the literals of indices."""
    literals: tuple[str, ...]
    parameters: tuple[tuple[str, str], ...]
    """(type, name within) of what it takes."""
    arguments: tuple[str, ...]
    """What the parameters are here."""
    results: tuple[tuple[str, str, str], ...]
    """(type, name within, name here) of what is used behind it."""
    slots: frozenset[str]
    """The stack slots of the function that nobody else uses: they are slots of the nest."""

    @property
    def key(self) -> tuple[object, ...]:
        """What nests of one function have in common."""
        return self.body, self.parameters, tuple(result[:2] for result in self.results)


def outline(
    entry: Sequence[str],
    lines: Sequence[str],
    regions: Sequence[tuple[int, int]],
    fresh: Callable[[], str],
    add: Callable[[Callable[[str], str]], str],
) -> tuple[list[str], list[str]]:
    """The entry and the lines of a function whose `regions` are calls of functions.

    `add` makes a function of the module of what it is given: a function from its name to its text. It gives the name.
    """
    reader = _Reader(entry, lines)
    groups: dict[tuple[object, ...], list[_Nest]] = {}
    for start, stop in regions:
        nest = reader.read(start, stop)
        if nest is not None:
            groups.setdefault(nest.key, []).append(nest)
    calls: dict[int, tuple[int, list[str]]] = {}
    inner, slots = set[str](), list[str]()
    for group in groups.values():
        first = group[0]
        differing = [
            number
            for number, literals in enumerate(zip(*(nest.literals for nest in group)))
            if any(literal != literals[0] for literal in literals)
        ]
        name = add(lambda name, first=first, differing=differing: _function(name, first, differing))
        for nest in group:
            written: list[str] = []
            arguments = [f"{type_} {value}" for (type_, _), value in zip(nest.parameters, nest.arguments)]
            arguments += [f"i64 {nest.literals[number]}" for number in differing]
            for type_, _, value in nest.results:
                slots.append(f"  {fresh()} = alloca {type_}")
                slot = slots[-1].split(" = ")[0].strip()
                arguments.append(f"ptr {slot}")
                written.append(f"  {value} = load {type_}, ptr {slot}")
            calls[nest.start] = nest.stop, [f"  call void @{name}({', '.join(arguments)})", *written]
            inner |= nest.slots
    replaced: list[str] = []
    at = 0
    while at < len(lines):
        if at in calls:
            at, call = calls[at]
            replaced += call
        else:
            replaced.append(lines[at])
            at += 1
    kept = [line for line in entry if not ((found := _DEFINITION.match(line)) and found[1] in inner)]
    return [*slots, *kept], replaced


def _function(name: str, nest: _Nest, differing: Sequence[int]) -> str:
    """The function of a nest; its literals of those numbers are parameters."""
    parameters = [f"{type_}{' noalias' if value == '%scratch' else ''} {value}" for type_, value in nest.parameters]
    parameters += [f"i64 %literal{number}" for number in differing]
    parameters += [f"ptr %result{number}" for number in range(len(nest.results))]
    known = {
        f"#{number}": f"%literal{number}" if number in differing else literal
        for number, literal in enumerate(nest.literals)
    }
    body = re.sub(r"#\d+", lambda found: known[found[0]], nest.body)
    stores = [f"  store {type_} {value}, ptr %result{n}" for n, (type_, value, _) in enumerate(nest.results)]
    head = f"define internal void @{name}({', '.join(parameters)}) noinline nounwind {{"
    return "\n".join([head, "entry:", body, *stores, "  ret void", "}"])


class _Reader:
    """Reads the nests of one function."""

    def __init__(self, entry: Sequence[str], lines: Sequence[str]) -> None:
        self.lines = lines
        first, rest = "\n".join(entry), "\n".join(lines)
        self.definitions: dict[str, str] = dict(_DEFINITION.findall(first) + _DEFINITION.findall(rest))
        self.slots = {name for name, text in _DEFINITION.findall(first) if text.startswith("alloca ")}
        self.uses = Counter[str](_NAME.findall(first) + _NAME.findall(rest))
        """How often each name stands in the function."""

    def read(self, start: int, stop: int) -> _Nest | None:
        """The nest of these lines; None if they are no loop that begins and ends here."""
        text = "\n".join(self.lines[start:stop])
        labels = {f"%{label}" for label in _LABEL.findall(text)}
        if not loops(text) or "  ret " in text or not labels.issuperset(_LABEL_USE.findall(text)):
            return None
        counts = Counter[str](_NAME.findall(text))
        made = {name for name, _ in _DEFINITION.findall(text)}
        slots = frozenset(n for n, count in counts.items() if n in self.slots and self.uses[n] == count + 1)
        names: dict[str, str] = {}
        head: list[str] = []
        taken: list[_Taken] = []
        for name in counts:
            names[name] = inside = f"%v{len(names)}"
            if name in slots:
                head.append(f"  {inside} = {self.definitions[name]}")
            elif name not in made and name not in labels:
                taken += self._take(name, inside, head, taken)
        results = [(result_type(self.definitions[n]), names[n], n) for n in made if self.uses[n] > counts[n]]
        literals: list[str] = []
        body = "\n".join([*head, _renamed(text, names, literals)])
        return _Nest(
            start, stop, body, tuple(literals), tuple((t.type, t.inside) for t in taken),
            tuple(t.argument for t in taken), tuple(sorted(results, key=lambda result: result[1])), slots,
        )  # fmt: skip

    def _take(self, name: str, inside: str, head: list[str], taken: Sequence[_Taken]) -> list[_Taken]:
        """Parameters for a name; for a place in scratch, its offset, so that LLVM sees that it is in scratch."""
        scratch = [] if any(t.argument == "%scratch" for t in taken) else [_Taken("ptr", "%scratch", "%scratch")]
        text = self.definitions.get(name)
        if name == "%scratch":
            head.append(f"  {inside} = getelementptr i8, ptr %scratch, i64 0")
            return scratch
        if text is None:  # a parameter of the function
            return [_Taken("ptr", inside, name)]
        if place := _IN_SCRATCH.fullmatch(text):
            head.append(f"  {inside} = getelementptr inbounds i8, ptr %scratch, i64 {inside}.offset")
            return [*scratch, _Taken("i64", f"{inside}.offset", place[1])]
        return [_Taken(result_type(text), inside, name)]


def _renamed(text: str, names: Mapping[str, str], literals: list[str]) -> str:
    """Lines under other names; literals of index arithmetic are set aside."""

    def aside(operand: str) -> str:
        if operand.startswith("%"):
            return operand
        literals.append(operand)
        return f"#{len(literals) - 1}"

    def name(found: re.Match[str]) -> str:
        here = found[0]
        return names[here] if here.startswith("%") else names[f"%{here}"][1:]

    text = _INDEX_LITERAL.sub(lambda found: f"{found[1]}{aside(found[2])}, {aside(found[3])}", text)
    return _NAME_OR_LABEL.sub(name, text)
