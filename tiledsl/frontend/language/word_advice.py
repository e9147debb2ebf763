"""What to write instead of a word that the language does not have: its own, one that is meant, or one of a habit."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from types import FunctionType, ModuleType

from tiledsl.frontend.language import functions as language_functions
from tiledsl.frontend.language import math as language_math
from tiledsl.frontend.language import program as language_program
from tiledsl.frontend.language import tensors as language_tensors
from tiledsl.frontend.language.foreign_words import ARGUMENTS, FUNCTIONS, KEYWORDS, METHODS, NAMES
from tiledsl.ir.dtypes import BY_NAME
from tiledsl.support.suggest import nearest


@cache
def language_words() -> tuple[str, ...]:
    """Every name that users can write after `tile.`."""
    modules = (language_math, language_functions, language_program, language_tensors)
    words = [n for module in modules for n in vars(module) if _is_stub(module, n)]
    return (*words, *BY_NAME, "auto", "constexpr", "func", "register", "shared", "kernel", "spec")


def _is_stub(module: ModuleType, name: str) -> bool:
    value = getattr(module, name)
    return isinstance(value, FunctionType) and value.__module__ == module.__name__


def function_advice(name: str) -> str | None:
    """What to write for a function of another library."""
    if name in FUNCTIONS:
        return FUNCTIONS[name].format(x="x")
    return f"write `tile.{name}`" if name in language_words() else None


def method_advice(text: str, name: str, known: Iterable[str]) -> str | None:
    """What to write for the attribute `name` of a value that is written `text` and has those that are `known`."""
    if name in METHODS:
        return METHODS[name].format(x=text)
    if name in language_words():
        return f"write `tile.{name}({text})`"
    close = nearest(name, known)
    return f"did you mean `{text}.{close}`?" if close is not None else function_advice(name)


def name_advice(name: str, member: str | None) -> str | None:
    """What to write for a module that is not imported, of which `member` was asked."""
    if name not in NAMES:
        return None
    if member is None:
        return NAMES[name]
    return function_advice(f"{name}.{member}") or function_advice(member) or NAMES[name]


def member_advice(module: str, name: str, known: Iterable[str]) -> str:
    """What to write for a member that a module does not have."""
    if name in FUNCTIONS:
        return FUNCTIONS[name].format(x="x")
    close = nearest(name, known)
    return "see the list of names with dir()" if close is None else f"did you mean `{module}.{close}`?"


def argument_advice(error: TypeError, parameters: Iterable[str], keywords: Iterable[str]) -> tuple[str, str]:
    """What an error says of arguments that do not fit the parameters, and the advice.

    A keyword that there is not comes before what is missing: it is often the same argument.
    """
    known = list(parameters)
    listed = f"its parameters are ({', '.join(known)})"
    name = next((keyword for keyword in keywords if keyword not in known), None)
    if name is None:
        return str(error), listed
    close = nearest(name, known)
    if KEYWORDS.get(name) in known:
        hint = f"write `{KEYWORDS[name]}=`; {listed}"
    elif name in ARGUMENTS:
        hint = ARGUMENTS[name]
    else:
        hint = listed if close is None else f"did you mean `{close}=`? {listed}"
    return f"got an unexpected keyword argument '{name}'", hint
