"""The plain values in `conf.py` of a Sphinx project, which is never run.

Belongs here: reading its literals, choosing documents. Does not belong here: toctrees, pages.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from citelock_sites.rst.context import RstSettings

_ALWAYS = ("_build", "**/_sources", ".#*", "Thumbs.db", ".DS_Store")
_WILD_MAX = 4


@dataclass(frozen=True)
class SphinxConfig:
    """The values of one project, by name."""

    values: Mapping[str, Any]

    def text(self, name: str, default: str = "") -> str:
        """Return a value that is text."""
        value = self.values.get(name)
        return value if isinstance(value, str) else default

    def texts(self, name: str) -> list[str]:
        """Return a value that is a list of texts."""
        value = self.values.get(name)
        return [one for one in value if isinstance(one, str)] if isinstance(value, (list, tuple, set)) else []

    @cached_property
    def suffixes(self) -> tuple[str, ...]:
        """Return the endings of documents."""
        value = self.values.get("source_suffix", ".rst")
        found = [value] if isinstance(value, str) else [one for one in value if isinstance(one, str)]
        markdown = [".md"] if {"myst_parser", "myst_nb", "recommonmark"} & set(self.texts("extensions")) else []
        return tuple(dict.fromkeys([*found, *markdown])) or (".rst",)

    @cached_property
    def root(self) -> str:
        """Return the name of the document above all others."""
        return self.text("root_doc") or self.text("master_doc") or "index"

    @cached_property
    def excluded(self) -> re.Pattern[str]:
        """Return a pattern of the files that are no documents, and of folders of such."""
        names = ("exclude_patterns", "templates_path", "html_static_path", "html_extra_path")
        patterns = [*_ALWAYS, *(one for name in names for one in self.texts(name))]
        return re.compile("|".join(f"(?:{glob_pattern(one.strip('/'))})(?:/|$)" for one in patterns if one.strip("/")))

    @cached_property
    def rst(self) -> RstSettings:
        """Return the settings that change how pages read."""
        values = {name: self.text(name) for name in ("version", "release", "project")}
        links = self.values.get("extlinks")
        domain = self.values.get("primary_domain", "py")
        return RstSettings(
            language=self.text("highlight_language", "python").removeprefix("default") or "python",
            default_role=self.text("default_role") or None,
            domain=domain if isinstance(domain, str) else "",
            prolog=self.text("rst_prolog"),
            epilog=self.text("rst_epilog"),
            substitutions={name: value for name, value in values.items() if value and name != "project"},
            links=_extlinks(links) if isinstance(links, dict) else {},
        )


def sphinx_config(source: str) -> SphinxConfig:
    """Return a `conf.py`'s literals, lists that it adds to, and names of earlier values."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return SphinxConfig({})
    values: dict[str, Any] = {}
    for node in body:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    if isinstance(target, ast.Name):
                        _take(values, target.id, value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                _take(values, name, value)
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=value):
                _add(values, name, _literal(value, values))
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method), args=[value])):
                added = _literal(value, values)
                _add(values, name, [added] if method == "append" else added)
    return SphinxConfig(values)


def _take(values: dict[str, Any], name: str, node: ast.expr) -> None:
    value = _literal(node, values)
    if value is not None:
        values[name] = value


def _add(values: dict[str, Any], name: str, added: Any) -> None:
    before = values.get(name)
    if isinstance(before, list) and isinstance(added, (list, tuple)):
        values[name] = [*before, *added]
    elif isinstance(before, str) and isinstance(added, str) and len(before) + len(added) < 100_000:
        values[name] = before + added


def _literal(node: ast.expr, values: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        return values.get(node.id)
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _extlinks(links: dict[Any, Any]) -> dict[str, tuple[str, str | None]]:
    found: dict[str, tuple[str, str | None]] = {}
    for name, value in links.items():
        if isinstance(name, str) and isinstance(value, (tuple, list)) and value and isinstance(value[0], str):
            caption = value[1] if len(value) > 1 and isinstance(value[1], str) else None
            found[name.lower()] = (value[0], caption)
    return found


def glob_pattern(glob: str) -> str:
    """Return a regular expression of a glob of Sphinx: `**` crosses folders, `*` does not.

    A glob of more than `_WILD_MAX` wildcards matches nothing: it would be tried in too many ways.
    """
    parts = [part for part in re.split(r"(\*\*/?|\*|\?)", re.sub(r"(?:\*\*/){2,}", "**/", glob)) if part]
    said = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    if sum(part in said for part in parts) > _WILD_MAX:
        return "(?!)"
    return "".join(said.get(part) or re.escape(part) for part in parts)
