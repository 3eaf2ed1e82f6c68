"""HTML of docutils' trees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from html import escape
from types import MappingProxyType
from typing import Any

from docutils import nodes

from citelock_sites.rst.context import names
from citelock_sites.rst.roles import SHOWN
from rag_assets.steps.formats.text_marks import STRUCK_CLASSES


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

    def _admonition(self, node: Any) -> str:
        return f"<blockquote>{self._children(node)}</blockquote>"

    def _rubric(self, node: Any) -> str:
        return f"<p><strong>{self._children(node)}</strong></p>"

    def _topic(self, node: Any) -> str:
        if {"contents", "toc"} & set(node.get("classes", ())):
            return ""
        return f"<blockquote>{self._children(node)}</blockquote>"

    def _terms(self, node: Any) -> str:
        return f"<p>{self._children(node)}</p>"

    def _classifier(self, node: Any) -> str:
        return f" : {self._children(node)}"

    def _field_name(self, node: Any) -> str:
        return f"<p><strong>{self._children(node)}</strong></p>"


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
        "admonition": RstHtml._admonition,
        "rubric": RstHtml._rubric,
        "topic": RstHtml._topic,
        "sidebar": RstHtml._admonition,
        "classifier": RstHtml._classifier,
        "field_name": RstHtml._field_name,
    }
)
