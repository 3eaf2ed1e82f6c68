"""Targets in the pages of a Sphinx project: titles, labels, terms, objects, and their toctrees."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

from citelock_sites.rst.context import RstSettings
from citelock_sites.rst.reader import make_id, sphinx_id, term_id

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


_UNDERLINE = re.compile(r"([!-/:-@\[-`{-~])\1+\s*\Z")
_LABEL = re.compile(r"\s*\.\. _(?:`([^`]+)`|((?:[^:\\`]|\\.|:(?!\s|\Z))+)):\s*\Z")
_MYST_LABEL = re.compile(r"\(([^()]+)\)=\s*\Z")
_MYST_TITLE = re.compile(r"#{1,6}[ \t]+(\S.*)\Z")
_DIRECTIVE = re.compile(r"(\s*)(?:\.\. ([\w:-]+)::|(?:```+|:::+)\{([\w:-]+)\})\s*(.*)\Z")
_OPTION = re.compile(r"\s+:([\w-]+):\s*(.*)\Z|:([\w-]+):\s*(.*)\Z")
_OBJECTS = re.compile(r"(?:py:)?(function|class|method|attribute|property|data|exception|staticmethod|classmethod)\Z")
_NAME = re.compile(r"(?:async\s+)?([\w.]+)")
_STRIP = re.compile(
    r"``([^`]*)``|(?<!:):[\w-][\w:-]{0,60}:`~?([^`<]{0,300})(?:<[^`>]{0,300}>)?`|`([^`<]{0,300})(?:<[^`>]{0,300}>)?`_{0,2}|\*{1,2}([^*]{1,300})\*{1,2}"
)


@dataclass(frozen=True)
class TocEntry:
    """An entry of a toctree: a document's name as written, or an address; `caption` is that of its toctree."""

    target: str
    title: str | None
    caption: str | None
    glob: bool = False


@dataclass
class PageIndex:
    """The targets of one page."""

    title: str = ""
    toc: list[TocEntry] = field(default_factory=list)
    labels: dict[str, tuple[str, str]] = field(default_factory=dict)  # by normalized name: id, title
    terms: dict[str, tuple[str, str]] = field(default_factory=dict)
    objects: dict[str, str] = field(default_factory=dict)  # by full name, options by `option NAME`: id
    includes: list[str] = field(default_factory=list)


def page_index(text: str, section_labels: str | None = None) -> PageIndex:
    """Return the index of a page's targets.

    Args:
        text: of the page, with its includes.
        section_labels: the prefix of its headings' names as labels; None: they are none.
    """
    found = PageIndex()
    lines = text.splitlines()
    _titles(lines, found, section_labels)
    _directives(lines, found)
    return found


def normalized(name: str) -> str:
    """Return the name of a label as it is compared."""
    return " ".join(name.lower().split())


def words_of(markup: str) -> str:
    """Return a title without its markup."""
    plain = _STRIP.sub(lambda match: next((one for one in match.groups() if one is not None), ""), markup)
    return " ".join(plain.replace("\\", "").split())


def _titles(lines: Sequence[str], found: PageIndex, section_labels: str | None) -> None:
    waiting: list[str] = []
    for line, below in pairwise([*lines, ""]):
        if match := _LABEL.match(line) or _MYST_LABEL.match(line):
            waiting.append(next(one for one in match.groups() if one))
            continue
        if not line.strip() or _UNDERLINE.match(line):
            continue
        title = _title(line, below)
        if title is not None:
            found.title = found.title or title
            if section_labels is not None:
                found.labels.setdefault(normalized(section_labels + title), (make_id(title), title))
        for name in waiting:
            found.labels.setdefault(normalized(name), (make_id(name), title or ""))
        waiting.clear()


def _title(line: str, below: str) -> str | None:
    if found := _MYST_TITLE.match(line):
        return words_of(found[1].rstrip().rstrip("#"))
    is_title = _UNDERLINE.match(below) and len(below.strip()) >= min(4, len(line.strip()))
    return words_of(line) if is_title and not line.startswith((".. ", "+-", "| ")) else None


def _directives(lines: Sequence[str], found: PageIndex) -> None:
    module, program = "", ""
    above: list[tuple[int, str]] = []  # indent and name of the classes that the line is in
    for at, line in enumerate(lines):
        match = _DIRECTIVE.match(line)
        if match is None:
            continue
        indent, name, argument = len(match[1]), (match[2] or match[3]).lower(), match[4].strip()
        while above and above[-1][0] >= indent:
            above.pop()
        if name == "toctree":
            found.toc += _toctree(lines[at + 1 :], match[3] is not None, indent)
        elif name == "include":
            found.includes.append(argument)
        elif name == "glossary":
            _glossary(lines[at + 1 :], indent, found)
        elif name in ("module", "currentmodule", "py:module", "py:currentmodule"):
            module = "" if argument == "None" else argument
            if not name.endswith("currentmodule"):
                found.objects[module] = f"module-{module}"
        elif name == "program":
            program = argument
        elif name in ("option", "cmdoption", "envvar", "confval"):
            _standard(name, argument, program, found)
        elif (kind := _OBJECTS.match(name)) and (signature := _NAME.match(argument)):
            full = ".".join(part for part in (module, above[-1][1] if above else "", signature[1]) if part)
            found.objects.setdefault(full, full)
            if kind[1] in ("class", "exception"):
                above.append((indent, f"{above[-1][1]}.{signature[1]}" if above else signature[1]))
        _named(lines[at + 1 : at + 12], argument, found)


def _named(lines: Sequence[str], argument: str, found: PageIndex) -> None:
    options: dict[str, str] = {}
    for line in lines:
        match = _OPTION.match(line)
        if match is None:
            break
        options[match[1] or match[3]] = match[2] or match[4] or ""
    if name := options.get("name"):
        title = words_of(options.get("caption") or argument)
        found.labels.setdefault(normalized(name), (make_id(name), title))


def _standard(kind: str, argument: str, program: str, found: PageIndex) -> None:
    for part in argument.split(", ") if "option" in kind else [argument]:
        words = part.split()
        if not words:
            continue
        if "option" in kind:
            name = re.split(r"[=\[]", words[0])[0]
            prefix = f"cmdoption-{program}" if program else "cmdoption"
            key = f"option {program} {name}" if program else f"option {name}"
            found.objects.setdefault(" ".join(key.split()), sphinx_id(prefix, name))
        else:
            found.objects.setdefault(f"{kind} {words[0]}", sphinx_id(kind, words[0]))


def _block(lines: Sequence[str], indent: int) -> Iterator[str]:
    for line in lines:
        if not line.strip():
            yield ""
        elif len(line) - len(line.lstrip()) > indent:
            yield line
        else:
            return


def _toctree(lines: Sequence[str], is_fence: bool, indent: int) -> Iterator[TocEntry]:
    caption, is_glob = None, False
    content = _fence(lines) if is_fence else _block(lines, indent)
    for line in content:
        text = line.strip()
        if option := re.match(r":([\w-]+):\s*(.*)\Z", text):
            caption = option[2] if option[1] == "caption" else caption
            is_glob = is_glob or option[1] == "glob"
        elif text:
            title, mark, target = text[:-1].rpartition("<") if text.endswith(">") else ("", "", text)
            yield TocEntry(target.strip(), title.strip() or None if mark else None, caption, is_glob)


def _fence(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        if line.lstrip().startswith(("```", ":::")):
            return
        yield line


def _glossary(lines: Sequence[str], indent: int, found: PageIndex) -> None:
    column = None
    for line in _block(lines, indent):
        text = line.strip()
        if not text or re.match(r":\w+:|\.\. ", text):
            continue
        at = len(line) - len(line.lstrip())
        column = at if column is None else column
        if at == column:
            term = words_of(text.partition(" : ")[0])
            name = term_id(term)
            if name:
                found.terms.setdefault(term.lower(), (name, term))
