"""`break` and `continue` as flags."""

from __future__ import annotations

import ast
import textwrap

import pytest

from tiledsl.frontend.source.jumps import assigned_names, flatten_jumps


def flattened(text: str) -> str:
    """The body of a loop without jumps, with flags called after what they say."""
    loop = ast.parse(textwrap.dedent(text)).body[0]
    assert isinstance(loop, (ast.For, ast.While))
    body = ast.unparse(ast.Module(flatten_jumps(loop).body, []))
    return body.replace("<", "").replace(" 2>", "").replace(" 1>", "").replace(">", "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("for i in r:\n    a\n    b", "a\nb"),
        ("for i in r:\n    a\n    break\n    b", "if not broken:\n    a\n    broken = True"),
        (
            "for i in r:\n    if p:\n        break\n    b",
            "if not broken:\n    if p:\n        broken = True\n    if not broken:\n        b",
        ),
        (
            "for i in r:\n    if p:\n        a\n    else:\n        continue\n    b",
            "continued = False\nif p:\n    a\nelse:\n    continued = True\nif not continued:\n    b",
        ),
        (
            "for i in r:\n    if p:\n        break\n    if q:\n        continue\n    b",
            "if not broken:\n    continued = False\n    if p:\n        broken = True\n"
            "    if not (broken or continued):\n        if q:\n            continued = True\n"
            "        if not (broken or continued):\n            b",
        ),
        ("for i in r:\n    for j in r:\n        break", "for j in r:\n    break"),
    ],
)
def test_bodies_without_jumps(text: str, expected: str) -> None:
    assert flattened(text) == expected


def test_nested_loops_have_flags_of_their_own() -> None:
    loop = ast.parse("for i in r:\n    if p:\n        break\n    for j in r:\n        break").body[0]
    assert isinstance(loop, ast.For)
    outer = flatten_jumps(loop)
    inner = next(node for node in ast.walk(ast.Module(outer.body, [])) if isinstance(node, ast.For))
    assert outer.broken is not None
    assert flatten_jumps(inner).broken not in (None, outer.broken)


def test_assigned_names() -> None:
    text = "a, (b, c) = x\nd[0] = 1\nfor e in r:\n    f += 1\n    if p:\n        a = 2"
    assert assigned_names(ast.parse(text).body) == ["a", "b", "c", "e", "f"]
