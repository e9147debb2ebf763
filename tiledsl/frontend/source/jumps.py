"""Rewrites `break` and `continue` into flags, so that control flow stays structured.

while c:                     while not broken and c:
    a                            a
    if p:              =>        if p:
        break                        broken = True
    b                            if not broken:
                                     b
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class FlatLoop:
    """A loop's body without jumps. `broken` is the variable that is set where it broke, None if it cannot."""

    body: list[ast.stmt]
    broken: str | None


def flatten_jumps(loop: ast.For | ast.While) -> FlatLoop:
    """The body of a loop with its own `break` and `continue` replaced by flags."""
    breaks, continues = _has(loop.body, ast.Break), _has(loop.body, ast.Continue)
    if not breaks and not continues:
        return FlatLoop(loop.body, None)
    # Names that no Python program can spell; the line keeps nested loops apart.
    names: dict[type[ast.stmt], str] = {
        ast.Break: f"<broken {loop.lineno}>",
        ast.Continue: f"<continued {loop.lineno}>",
    }
    body = _rewrite(loop.body, names, breaks, continues)
    if continues:
        body = [_assign(names[ast.Continue], False, loop), *body]
    if breaks and isinstance(loop, ast.For):  # a `while` asks in its condition
        body = [_guard([names[ast.Break]], body, loop)]
    return FlatLoop(body, names[ast.Break] if breaks else None)


def jumps_in(statements: Sequence[ast.stmt], kind: type[ast.stmt]) -> ast.stmt | None:
    """The first `break` or `continue` that belongs to the loop around these statements."""
    for statement in statements:
        if isinstance(statement, kind):
            return statement
        if isinstance(statement, ast.If):
            found = jumps_in([*statement.body, *statement.orelse], kind)
            if found is not None:
                return found
    return None


def _has(statements: Sequence[ast.stmt], kind: type[ast.stmt]) -> bool:
    return jumps_in(statements, kind) is not None


def _rewrite(
    statements: Sequence[ast.stmt], names: dict[type[ast.stmt], str], breaks: bool, continues: bool
) -> list[ast.stmt]:
    done: list[ast.stmt] = []
    for position, statement in enumerate(statements):
        if isinstance(statement, (ast.Break, ast.Continue)):
            return [*done, _assign(names[type(statement)], True, statement)]
        if isinstance(statement, ast.If) and (_has([statement], ast.Break) or _has([statement], ast.Continue)):
            body = _rewrite(statement.body, names, breaks, continues)
            orelse = _rewrite(statement.orelse, names, breaks, continues)
            done.append(ast.copy_location(ast.If(statement.test, body, orelse), statement))
            rest = _rewrite(statements[position + 1 :], names, breaks, continues)
            used = [names[kind] for kind, there in ((ast.Break, breaks), (ast.Continue, continues)) if there]
            return [*done, _guard(used, rest, rest[0])] if rest else done
        done.append(statement)
    return done


def printable_name(name: str) -> str:
    """A variable's name for printed IR: `broken` for the flag `<broken 7>`."""
    return name if name.isidentifier() else name.strip("<>").split()[0]


def _assign(name: str, value: bool, at: ast.AST) -> ast.stmt:
    target = ast.copy_location(ast.Name(name, ast.Store()), at)
    return ast.copy_location(ast.Assign([target], ast.copy_location(ast.Constant(value), at)), at)


def _guard(flags: Sequence[str], body: list[ast.stmt], at: ast.AST) -> ast.stmt:
    """`if not (flag or ...): body`"""
    names: list[ast.expr] = [ast.copy_location(ast.Name(flag, ast.Load()), at) for flag in flags]
    test = names[0] if len(names) == 1 else ast.copy_location(ast.BoolOp(ast.Or(), names), at)
    negated = ast.copy_location(ast.UnaryOp(ast.Not(), test), at)
    return ast.copy_location(ast.If(negated, body, []), at)


def assigned_names(statements: Sequence[ast.stmt]) -> list[str]:
    """Every variable that the statements, or what is nested in them, may assign; in order, once each."""
    nodes = [node for statement in statements for node in ast.walk(statement)]
    stores = [node for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    stores.sort(key=lambda node: (node.lineno, node.col_offset))
    return list(dict.fromkeys(node.id for node in stores))
