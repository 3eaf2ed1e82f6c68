"""A page of reStructuredText: docutils reads it, with Sphinx's directives and roles beside its own, for HTML."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from html import escape
from threading import RLock
from types import MappingProxyType
from typing import Any

from docutils import nodes, utils
from docutils.core import publish_doctree
from docutils.parsers.rst import Parser, directives, roles

from citelock_sites.markup import Alone, MarkupError, MarkupPage, PageSurroundings
from citelock_sites.rst.context import RstContext, RstSettings, names
from citelock_sites.rst.directives import directive_of
from citelock_sites.rst.reader import LinearInliner, SphinxReader
from citelock_sites.rst.roles import SHOWN, role_of
from rag_assets.steps.formats.blocks import STRUCK_CLASSES


def title_of(document: Any) -> str:
    """Return the text of the first heading."""
    title = next(iter(document.findall(nodes.title)), None)
    if title is None:
        return ""
    parts = [node.parent.get(SHOWN, node.astext()) for node in title.findall(nodes.Text)]
    return " ".join("".join(parts).split())


class RstHtml:
    """Writes one document."""

    def __init__(self, document: Any, lost: Counter[str]) -> None:
        self._document = document
        self._lost = lost
        self._level = 0
        self.title = title_of(document)

    def html(self) -> str:
        """Return the body of the page."""
        return self._children(self._document)

    def _children(self, node: Any) -> str:
        return "".join(map(self._node, node.children))

    def _node(self, node: Any) -> str:
        if isinstance(node, nodes.Text):
            return escape(node.astext(), quote=False)
        html = self._shown(node, node.tagname)
        return f"<del>{html}</del>" if STRUCK_CLASSES.intersection(node.get("classes", ())) else html

    def _shown(self, node: Any, name: str) -> str:
        if name in _SILENT:
            return ""
        if SHOWN in node:
            return escape(node[SHOWN], quote=False)
        ids = "" if isinstance(node, (nodes.section, nodes.problematic)) else "".join(map(_anchor, node.get("ids", ())))
        if (rule := _RULES.get(name)) is not None:
            return ids + rule(self, node)
        if (tag := _TAGS.get(name)) is not None:
            return f"<{tag}>{ids}{self._children(node)}</{tag}>"
        if (frame := _FRAMES.get(name)) is not None:
            return f"{ids}{frame[0]}{self._children(node)}{frame[1]}"
        if isinstance(node, nodes.Admonition):
            title = f"<p><strong>{name.capitalize()}</strong></p>"
            return f"<blockquote>{ids}{title}{self._children(node)}</blockquote>"
        return ids + self._children(node)

    def _section(self, node: Any) -> str:
        self._level += 1
        inner = self._children(node)
        self._level -= 1
        return inner

    def _title(self, node: Any) -> str:
        above = node.parent
        inner = self._children(node)
        if isinstance(above, nodes.section):
            tag = f"h{min(self._level, 6)}"
            first, *further = above["ids"] or [""]
            name = f' id="{escape(first)}"' if first else ""
            return f"<{tag}{name}>{inner}{''.join(map(_anchor, further))}</{tag}>"
        return f"<p><strong>{inner}</strong></p>"

    def _code(self, node: Any) -> str:
        language = node.get("language", "")
        if not language and "code" in node.get("classes", ()):
            language = next((one for one in node["classes"] if one not in ("code", "literal-block")), "")
        name = f' class="language-{escape(language)}"' if language else ""
        return f"<pre><code{name}>{self._children(node)}\n</code></pre>"

    def _list(self, node: Any) -> str:
        start = f' start="{node["start"]}"' if "start" in node else ""
        return f"<ol{start}>{self._children(node)}</ol>"

    def _table(self, node: Any) -> str:
        captions = [f"<caption>{self._children(one)}</caption>" for one in node if isinstance(one, nodes.title)]
        rest = [self._node(one) for one in node if not isinstance(one, nodes.title)]
        return f"<table>{''.join(captions + rest)}</table>"

    def _entry(self, node: Any) -> str:
        tag = "th" if isinstance(node.parent.parent, nodes.thead) else "td"
        spans = [
            f' {name}="{node[key] + 1}"'
            for name, key in (("colspan", "morecols"), ("rowspan", "morerows"))
            if node.get(key)
        ]
        return f"<{tag}{''.join(spans)}>{self._children(node)}</{tag}>"

    def _image(self, node: Any) -> str:
        return f'<img alt="{escape(node.get("alt", ""))}" src="{escape(node.get("uri", ""))}"/>'

    def _reference(self, node: Any) -> str:
        href = node.get("refuri") or (f"#{node['refid']}" if "refid" in node else "")
        inner = self._children(node)
        return f'<a href="{escape(href)}">{inner}</a>' if href else inner

    def _line_block(self, node: Any) -> str:
        lines = [self._line_block(one) if isinstance(one, nodes.line_block) else self._children(one) for one in node]
        inner = "<br/>".join(lines)
        return inner if isinstance(node.parent, nodes.line_block) else f"<p>{inner}</p>"

    def _footnote(self, node: Any) -> str:
        label = next((one.astext() for one in node if isinstance(one, nodes.label)), "")
        rest = "".join(self._node(one) for one in node if not isinstance(one, nodes.label))
        return f"<p>[{escape(label)}]</p>{rest}" if not rest.startswith("<p>") else f"<p>[{escape(label)}] {rest[3:]}"

    def _footnote_reference(self, node: Any) -> str:
        inner = f"[{self._children(node)}]"
        return f'<a href="#{escape(node["refid"])}">{inner}</a>' if "refid" in node else inner

    def _raw(self, node: Any) -> str:
        if node.astext() in _MARKS:  # MyST writes struck text as raw tags around it
            return str(node.astext())
        self._lost["raw"] += 1
        return ""

    def _topic(self, node: Any) -> str:
        if {"contents", "toc"} & set(node.get("classes", ())):
            return ""
        return f"<blockquote>{self._children(node)}</blockquote>"


def _anchor(name: str) -> str:
    return f'<a id="{escape(name)}"></a>'


_MARKS = frozenset(f"<{end}{tag}>" for end in ("", "/") for tag in ("s", "del", "sup", "sub"))
_SILENT = frozenset(
    names(
        "comment substitution_definition system_message docinfo meta colspec pending decoration "
        "transition toctree index title_fallback"
    )
)
_TAGS: Mapping[str, str] = MappingProxyType(
    {
        "paragraph": "p",
        "bullet_list": "ul",
        "list_item": "li",
        "block_quote": "blockquote",
        "attribution": "p",
        "thead": "thead",
        "tbody": "tbody",
        "row": "tr",
        "figure": "div",
        "caption": "p",
        "legend": "div",
        "emphasis": "em",
        "strong": "strong",
        "literal": "code",
        "math": "code",
        "subscript": "sub",
        "superscript": "sup",
        "definition_list": "dl",
        "definition": "dd",
        "term": "dt",
        "option_list": "dl",
        "option_group": "dt",
        "description": "dd",
        "field_list": "dl",
        "field_body": "dd",
        "compound": "div",
        "container": "div",
    }
)
_BOLD, _QUOTE = ("<p><strong>", "</strong></p>"), ("<blockquote>", "</blockquote>")
_FRAMES = {"rubric": _BOLD, "field_name": _BOLD, "admonition": _QUOTE, "sidebar": _QUOTE, "classifier": (" : ", "")}
_RULES: Mapping[str, Callable[[RstHtml, Any], str]] = MappingProxyType(
    {
        "section": RstHtml._section,
        "title": RstHtml._title,
        "literal_block": RstHtml._code,
        "doctest_block": RstHtml._code,
        "math_block": RstHtml._code,
        "enumerated_list": RstHtml._list,
        "table": RstHtml._table,
        "entry": RstHtml._entry,
        "image": RstHtml._image,
        "reference": RstHtml._reference,
        "line_block": RstHtml._line_block,
        "footnote": RstHtml._footnote,
        "citation": RstHtml._footnote,
        "footnote_reference": RstHtml._footnote_reference,
        "citation_reference": RstHtml._footnote_reference,
        "raw": RstHtml._raw,
        "topic": RstHtml._topic,
    }
)


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
    context = RstContext(name, around or Alone(), settings, language=settings.language)
    return parsed_page(_whole(text, settings), context, Parser(inliner=LinearInliner()))


def parsed_page(
    text: str, context: RstContext, parser: Any, further: Mapping[str, Any] = MappingProxyType({})
) -> MarkupPage:
    """Return a page of any markup that docutils has a parser for; `further` are settings of the parser.

    Raises:
        MarkupError: it cannot be read.
    """
    document = _document(text, context, parser, further)
    writer = RstHtml(document, context.lost)
    return MarkupPage(writer.html(), writer.title, _fields(document), context.read, context.lost)


def _document(text: str, context: RstContext, parser: Any, further: Mapping[str, Any]) -> Any:
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
