"""Every regular expression of packages and plug-ins with the methods that are called on it, and texts to be slow on.

Patterns are found as values of module globals, as results of functions without arguments that are cached, and as first
arguments of `re.search(…)` and the like in the source.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from re import _constants as names  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from types import ModuleType
from typing import Any

from support.parsed import parsed

METHODS = ("search", "match", "fullmatch", "finditer", "findall", "sub", "subn", "split")
_FLAGS = {name: getattr(re, name) for name in ("IGNORECASE", "I", "MULTILINE", "M", "DOTALL", "S", "ASCII", "A")}
_SOUP = (
    "a",
    "A",
    "1",
    " ",
    "\n",
    "\t",
    "_",
    "é",
    "字",
    "(",
    "[",
    '"',
    "<",
    "|",
    "`",
    "-",
    ".",
    "/",
    "@",
    ":",
    "*",
    "#",
)
_PAIRS = (
    "a.",
    "<a ",
    "a ",
    "1.",
    "[a",
    "](",
    "a-",
    "a@",
    "\n ",
    "\n\n",
    "a\n",
    "< ",
    "[[",
    "((",
    "a,",
    "://",
    "&a",
    "~~",
    "`a",
    "a1",
    "[1] ",
    "- ",
    "A a",
)
_MOST_PUMPS, _MOST_PREFIXES = 24, 2


@dataclass
class Found:
    """A pattern, where it stands, and how it is called."""

    where: str
    pattern: re.Pattern[Any]
    methods: set[str] = field(default_factory=set)


def modules() -> Iterator[ModuleType]:
    """Yield every module of both packages and of the plug-ins that can be imported here."""
    plugins = sorted(path.parent.name for path in Path(__file__).parents[2].glob("plugins/*/citelock_*/__init__.py"))
    for name in ("rag_serving", "rag_assets", "evals.evaluation", "evals.reports", *plugins):
        for each in pkgutil.walk_packages(importlib.import_module(name).__path__, f"{name}."):
            with suppress(ModuleNotFoundError):
                if not each.name.endswith("__main__"):
                    yield importlib.import_module(each.name)


def patterns() -> tuple[list[Found], list[str]]:
    """Return the patterns, and the places in the source whose pattern could not be told."""
    found: dict[tuple[Any, int], Found] = {}
    unknown: list[str] = []

    def add(where: str, pattern: re.Pattern[Any], methods: set[str]) -> None:
        one = found.setdefault((pattern.pattern, pattern.flags), Found(where, pattern))
        one.methods |= methods

    for module in modules():
        for name, value in list(vars(module).items()):
            for pattern in _inside(value):
                add(f"{module.__name__}.{name}", pattern, set())
        tree = parsed(Path(str(module.__file__)).read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            method, owner = node.func.attr, node.func.value
            where = f"{module.__name__}:{node.lineno}"
            if isinstance(owner, ast.Name) and owner.id == "re" and method in (*METHODS, "compile"):
                try:
                    args = [*node.args[:1], *(k.value for k in node.keywords if k.arg == "flags")]
                    args += node.args[1:2] if method == "compile" else []
                    values = [eval(compile(ast.Expression(arg), where, "eval"), vars(module)) for arg in args]
                    add(where, re.compile(*values), {method} - {"compile"})
                except NameError:
                    unknown.append(f"{module.__name__}: {ast.unparse(node.args[0])}")
            elif method in METHODS:
                with suppress(Exception):
                    value = eval(compile(ast.Expression(owner), where, "eval"), vars(module))
                    if isinstance(value, re.Pattern):
                        add(where, value, {method})
    return list(found.values()), sorted(set(unknown))


def _inside(value: Any, depth: int = 0) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif type(value) is dict and depth < 3:
        for each in (*value.keys(), *value.values()):
            yield from _inside(each, depth + 1)
    elif type(value) in (tuple, list, set, frozenset) and depth < 3:
        for each in value:
            yield from _inside(each, depth + 1)
    elif hasattr(value, "cache_info") and not inspect.signature(value).parameters:
        yield from _inside(value(), depth + 1)


def calls(found: Found) -> Iterator[tuple[str, Any]]:
    """Yield how the pattern is called; one that is used through a loop variable is searched."""
    used = found.methods or {"search", "finditer"}
    one = found.pattern
    if used & {"match"}:
        yield "match", one.match
    if used & {"fullmatch"}:
        yield "fullmatch", one.fullmatch
    if used & {"search", "finditer", "findall", "sub", "subn", "split"}:
        yield "finditer", lambda text: sum(1 for _ in one.finditer(text))


def hostile(pattern: re.Pattern[Any]) -> Iterator[tuple[str, str, str]]:
    """Yield beginnings, what is repeated behind them, and endings that make the pattern fail late."""
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    tree = parser.parse(source, pattern.flags & ~(0 if isinstance(pattern.pattern, str) else re.UNICODE))
    pumps, prefixes = dict.fromkeys(_repeated(tree)), dict.fromkeys(["", *_beginnings(tree)])
    own = [pump for pump in pumps if pump][:_MOST_PUMPS]
    for pump in dict.fromkeys([*own, *_SOUP, *_PAIRS]):
        yield "", pump, "\x00"
    for prefix in list(prefixes)[1 : _MOST_PREFIXES + 1]:
        for pump in own[:6]:
            yield prefix, pump, "\x00"
            yield "", prefix + pump, "\x00"
    whole = "".join(_sample(tree, 0))
    if whole:
        yield "", whole[:-1] or whole, "\x00"
        yield "", whole[: len(whole) // 2] or whole, "\x00"
        yield "", whole, "\x00"


def _repeated(tree: Any) -> Iterator[str]:
    """Yield examples of what a pattern repeats, and of each part of it."""
    for op, value in tree:
        if op in (names.MAX_REPEAT, names.MIN_REPEAT, names.POSSESSIVE_REPEAT):
            if value[1] > 8:
                for turn in (0, 1, 2):
                    yield _sample(value[2], turn)
            yield from _repeated(value[2])
        for part in _parts(op, value):
            yield from _repeated(part)


def _beginnings(tree: Any) -> Iterator[str]:
    """Yield examples of what stands before the repetitions of a pattern."""
    before = ""
    for op, value in tree:
        if op in (names.MAX_REPEAT, names.MIN_REPEAT, names.POSSESSIVE_REPEAT) and value[1] > 8 and before:
            yield before
        for part in _parts(op, value):
            for each in _beginnings(part):
                yield before + each
        before += _sample([(op, value)], 0)


def _parts(op: Any, value: Any) -> list[Any]:
    if op is names.SUBPATTERN:
        return [value[3]]
    if op is names.BRANCH:
        return list(value[1])
    if op in (names.ASSERT, names.ASSERT_NOT):
        return [value[1]]
    if op is names.ATOMIC_GROUP:
        return [value]
    return []


def _sample(tree: Any, turn: int) -> str:
    """Return a short text that a pattern, or a part of it, is likely to match; another for each turn."""
    said = ""
    for op, value in tree:
        if op is names.LITERAL:
            said += chr(value)
        elif op is names.NOT_LITERAL:
            said += "x" if value != ord("x") else "y"
        elif op is names.ANY:
            said += "x "[turn % 2]
        elif op is names.IN:
            said += _of_class(value, turn)
        elif op in (names.MAX_REPEAT, names.MIN_REPEAT, names.POSSESSIVE_REPEAT):
            said += _sample(value[2], turn) * max(1 if turn == 0 else 0, min(value[0], 30))
        elif op is names.BRANCH:
            said += _sample(value[1][turn % len(value[1])], turn)
        elif op is names.SUBPATTERN:
            said += _sample(value[3], turn)
        elif op is names.ATOMIC_GROUP:
            said += _sample(value, turn)
    return said


def _of_class(items: Any, turn: int) -> str:
    """Return a character of a class, or one outside of it where it is negated."""
    if items[0][0] is names.NEGATE:
        return ("x", " ", "1")[turn % 3]
    op, value = items[turn % len(items)]
    if op is names.LITERAL:
        return chr(value)
    if op is names.RANGE:
        return chr(value[0])
    kinds = {names.CATEGORY_SPACE: " \n\t", names.CATEGORY_DIGIT: "123", names.CATEGORY_WORD: "ab1"}
    kinds |= {names.CATEGORY_NOT_SPACE: "x-1", names.CATEGORY_NOT_WORD: " -\n", names.CATEGORY_NOT_DIGIT: "a -"}
    return kinds.get(value, "x")[turn % 3]
