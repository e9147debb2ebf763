"""Python that kernels do not have: what each construct is called and what to write instead.

The key is the class of the syntax node. The words are in the catalogue, under the code that stands here.
"""

from __future__ import annotations

import ast

UNSUPPORTED: dict[type[ast.AST], str] = {
    ast.AsyncFunctionDef: "python-async",
    ast.ClassDef: "python-class",
    ast.Delete: "python-del",
    ast.Dict: "python-dict",
    ast.DictComp: "python-comprehension",
    ast.FunctionDef: "python-nested-function",
    ast.GeneratorExp: "python-comprehension",
    ast.Global: "python-global",
    ast.Import: "python-import",
    ast.ImportFrom: "python-import",
    ast.Lambda: "python-lambda",
    ast.List: "python-list",
    ast.ListComp: "python-comprehension",
    ast.Match: "python-match",
    ast.NamedExpr: "python-walrus",
    ast.Nonlocal: "python-nonlocal",
    ast.Raise: "python-raise",
    ast.Set: "python-set",
    ast.SetComp: "python-comprehension",
    ast.Starred: "python-star",
    ast.Try: "python-try",
    ast.With: "python-with",
}
