"""Sphinx's roles, beside those of docutils: references and the words of user interfaces."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from docutils import nodes, utils

from citelock_sites.rst.context import RstContext, names

_REFERENCES = frozenset(names("ref doc term numref any download keyword option envvar token confval eq"))
_CODE = frozenset(
    names(
        "func meth class mod attr data obj exc const type prop deco function method module file samp "
        "command program makevar mimetype newsgroup regexp mailheader cpp cppclass macro member struct "
        "enum var enumerator"
    )
)
_WORDS = frozenset(names("menuselection guilabel kbd dfn abbr manpage cve cwe"))
SHOWN = "shown"
"""The attribute of a reference with the title that stands in its place when the page is shown."""
_DOMAINS = frozenset(names("py js c cpp rst std http rust go java rb php"))


def role_of(name: str, context: RstContext, known: Callable[[str], Any]) -> Any:
    """Return the function of a role and messages, as docutils expects them; `known` looks it up in docutils itself."""
    lowered = name.lower()
    if not lowered:
        role = context.settings.default_role
        return role_of(role, context, known) if role else known("")
    domain, _, kind = lowered.rpartition(":")
    domain = domain.rpartition(":")[2] if domain.startswith("external") else domain
    if kind in _REFERENCES and domain in ("", "std"):
        return _reference(kind, context), []
    if (domain == "" and kind in _CODE) or domain in _DOMAINS:
        return _object(kind, context), []
    if kind in _WORDS and not domain:
        return _words(kind), []
    if not domain and kind in context.settings.links:
        return _extlink(kind, context), []
    if not domain and kind in ("pep", "rfc"):
        return _numbered(kind), []
    found, _ = known(name)
    return (found or _unknown(lowered, context)), []


def _parts(text: str) -> tuple[str, str, bool]:
    """Return title and target of `title <target>`; they are the same if there is only one."""
    plain = utils.unescape(text)
    title, mark, name = plain[:-1].rpartition("<") if plain.endswith(">") else ("", "", "")
    return (title.strip(), name.strip(), True) if mark and title.strip() else (plain, plain, False)


def _reference(kind: str, context: RstContext) -> Any:
    def role(_name: str, rawtext: str, text: str, *_rest: Any, **_more: Any) -> Any:
        title, name, is_titled = _parts(text)
        name = name.removeprefix("!") if not is_titled else name
        if not is_titled:
            title = title.removeprefix("!").removeprefix("~")
        found = context.around.target(kind, name, context.name)
        shown = title if is_titled or found is None or not found.title else found.title
        if found is None and kind in ("ref", "numref", "doc"):
            context.lost["reference"] += 1
        code = kind in ("option", "envvar", "download", "token", "keyword")
        inner = nodes.literal(rawtext, shown) if code and kind != "download" else nodes.inline(rawtext, title)
        if not code and shown != title:  # Sphinx, too, makes ids of headings before it looks titles up
            inner[SHOWN] = shown
        return [nodes.reference(rawtext, "", inner, refuri=found.href) if found else inner], []

    return role


def _object(kind: str, context: RstContext) -> Any:
    def role(_name: str, rawtext: str, text: str, *_rest: Any, **_more: Any) -> Any:
        if kind == "samp":
            shown = re.sub(r"(?<!\\)[{}]", "", utils.unescape(text))
            return [nodes.literal(rawtext, shown)], []
        title, name, is_titled = _parts(text)
        if not is_titled:
            title = title.removeprefix("!")
            if title.startswith("~"):
                title = title[1:].rpartition(".")[2]
            title = title.lstrip(".")
            if kind in ("func", "meth", "function", "method") and not title.endswith(")"):
                title += "()"
        literal = nodes.literal(rawtext, title)
        full = name.lstrip("~!.").removesuffix("()")
        found = context.around.target(kind, full, context.name)
        if found is None and context.module:
            found = context.around.target(kind, f"{context.module}.{full}", context.name)
        return [nodes.reference(rawtext, "", literal, refuri=found.href) if found else literal], []

    return role


def _words(kind: str) -> Any:
    def role(_name: str, rawtext: str, text: str, *_rest: Any, **_more: Any) -> Any:
        plain = utils.unescape(text)
        if kind == "menuselection":
            plain = plain.replace("-->", "\N{TRIANGULAR BULLET}")
        if kind in ("menuselection", "guilabel"):
            plain = re.sub(r"&(.)", r"\1", plain)
        return [(nodes.literal if kind == "kbd" else nodes.inline)(rawtext, plain)], []

    return role


def _extlink(kind: str, context: RstContext) -> Any:
    def role(_name: str, rawtext: str, text: str, *_rest: Any, **_more: Any) -> Any:
        title, name, is_titled = _parts(text)
        address, caption = context.settings.links[kind]
        href = address.replace("%s", name) if "%s" in address else address + name
        shown = title if is_titled else (caption.replace("%s", name) if caption else href)
        return [nodes.reference(rawtext, shown, refuri=href)], []

    return role


def _numbered(kind: str) -> Any:
    addresses = {"pep": "https://peps.python.org/pep-%04d/", "rfc": "https://datatracker.ietf.org/doc/html/rfc%d.html"}

    def role(_name: str, rawtext: str, text: str, *_rest: Any, **_more: Any) -> Any:
        title, name, is_titled = _parts(text)
        shown = title if is_titled else f"{kind.upper()} {name}"
        number = name.partition("#")[0]
        if not re.fullmatch(r"[0-9]{1,6}", number):
            return [nodes.inline(rawtext, shown)], []
        return [nodes.reference(rawtext, shown, refuri=addresses[kind] % int(number))], []

    return role


def _unknown(name: str, context: RstContext) -> Any:
    def role(_name: str, rawtext: str, text: str, *_rest: Any, **_more: Any) -> Any:
        context.lost[f"role {name}"] += 1
        return [nodes.inline(rawtext, _parts(text)[0])], []

    return role
