"""A page of reStructuredText: docutils reads it, with Sphinx's directives and roles beside its own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import RLock
from types import MappingProxyType
from typing import Any

from citelock_sites.markup import Alone, MarkupError, MarkupPage, PageSurroundings
from citelock_sites.rst.context import RstContext, RstSettings

LINE_MAX = 100_000
"""Characters of a line. docutils bounds substitutions by it, too."""
_PLAIN = RstSettings()
_DISPATCH = RLock()  # docutils looks up directives and roles by two functions of its modules


def rst_page(
    text: str, name: str = "", around: PageSurroundings | None = None, settings: RstSettings = _PLAIN
) -> MarkupPage:
    """Return a page of reStructuredText. No file is opened; ids are those that Sphinx gives.

    Args:
        text: the source.
        name: of its file, for its includes.
        around: the files and pages around it.
        settings: of the project.

    Raises:
        MarkupError: it cannot be read.
    """
    from docutils.parsers.rst import Parser

    from citelock_sites.rst.reader import LinearInliner

    context = RstContext(name, around or Alone(), settings, language=settings.language)
    return parsed_page(_whole(text, settings), context, Parser(inliner=LinearInliner()))


def parsed_page(
    text: str, context: RstContext, parser: Any, further: Mapping[str, Any] = MappingProxyType({})
) -> MarkupPage:
    """Return a page of any markup that docutils has a parser for; `further` are settings of the parser.

    Raises:
        MarkupError: it cannot be read.
    """
    from citelock_sites.rst.html import RstHtml

    document = _document(text, context, parser, further)
    writer = RstHtml(document, context.lost)
    html = writer.html()
    return MarkupPage(html, writer.title, _fields(document), context.read, context.lost)


def _document(text: str, context: RstContext, parser: Any, further: Mapping[str, Any]) -> Any:
    from docutils import utils
    from docutils.core import publish_doctree

    from citelock_sites.rst.reader import SphinxReader

    if any(len(line) > LINE_MAX for line in text.splitlines()):
        raise MarkupError(f"it has a line of more than {LINE_MAX:,} characters")
    try:
        with _dispatched(context):
            return publish_doctree(
                text,
                source_path=context.name or None,
                reader=SphinxReader(),
                parser=parser,
                settings_overrides={**_overrides(), **further, "page_context": context},
            )
    except RecursionError:
        raise MarkupError("it is nested too deep") from None
    except (
        utils.SystemMessage,
        utils.ExtensionOptionError,
        AssertionError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:
        # Faults of docutils in what a fuzzer writes: the page is lost, with a reason.
        message = " ".join(f"{type(error).__name__}: {error}".split())
        raise MarkupError(f"it is not readable reStructuredText: {message[:200]}") from None


def _whole(text: str, settings: RstSettings) -> str:
    """Return a text between the project's prolog and epilog; fields of the document stay first, as in Sphinx."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    text = re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f]", " ", text)
    if settings.prolog:
        fields = re.match(r"(?::[^\n:]+:[^\n]*\n)*", text)
        at = fields.end() if fields else 0
        text = f"{text[:at]}\n{settings.prolog}\n\n{text[at:]}"
    named = [(name, value) for name, value in settings.substitutions.items() if f"|{name}|" in text]
    ends = [settings.epilog, *(f".. |{name}| replace:: {value}" for name, value in named)]
    return "\n\n".join([text, *ends, ""]) if any(ends) else text


def _overrides() -> dict[str, Any]:
    return {
        "_disable_config": True,
        "auto_id_prefix": "id",
        "docinfo_xform": True,
        "doctitle_xform": False,
        "exit_status_level": 6,
        "file_insertion_enabled": False,
        "halt_level": 6,
        "input_encoding": "unicode",
        "line_length_limit": LINE_MAX,
        "pep_references": False,
        "raw_enabled": False,
        "report_level": 6,
        "rfc_references": False,
        "sectsubtitle_xform": False,
        "syntax_highlight": "none",
        "traceback": True,
        "warning_stream": False,
    }


@contextmanager
def _dispatched(context: RstContext) -> Iterator[None]:
    """Let docutils look up our directives and roles first, like Sphinx; it offers no other way."""
    from docutils.parsers.rst import directives, roles

    from citelock_sites.rst.directives import directive_of
    from citelock_sites.rst.roles import role_of

    with _DISPATCH:
        own = directives.directive, roles.role
        local = dict(roles._roles)

        def directive(name: str, language: Any, document: Any) -> Any:
            return directive_of(name, context, lambda known: own[0](known, language, document))

        def role(name: str, language: Any, line: int, reporter: Any) -> Any:
            return role_of(name, context, lambda known: own[1](known, language, line, reporter))

        directives.directive, roles.role = directive, role
        try:
            yield
        finally:
            directives.directive, roles.role = own
            roles._roles.clear()
            roles._roles.update(local)


def _fields(document: Any) -> dict[str, str]:
    """Return the fields at the head of a page, such as `orphan`, and the values of its `meta` directives."""
    from docutils import nodes

    found: dict[str, str] = {}
    for info in document.findall(nodes.docinfo):
        for node in info.children:
            if isinstance(node, nodes.field):
                found[node[0].astext().lower()] = node[1].astext().strip()
            else:
                found[node.tagname] = node.astext()
    for node in document.findall(nodes.meta):
        if "name" in node:
            found.setdefault(node["name"].lower(), node.get("content", ""))
    return found
