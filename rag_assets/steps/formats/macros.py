"""Macros of Confluence: what each leaves in the text, and the ledger of it.

Parameters are never text, except where a reader of the page sees them: titles of panels, expands and code, a status, an
issue key. A macro that chooses its readers, by its name or by a parameter that names groups or users, is left out,
whatever the app: who may read its body cannot be known, and a gate that is not recognized shows its text to everybody.
Other losses of a page travel in its body as notes.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from html import escape
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from rag_assets.steps.formats.blocks import Listing, Reference
from rag_assets.steps.formats.element_tree import AC, RI, Element, PageError, html_tree, markdown_tree, wiki_tree
from rag_serving.text.normalization import OMISSION

if TYPE_CHECKING:
    from rag_assets.steps.formats.storage_elements import Walk


_NAME = re.compile(
    r"(?:^|[-_./ ])(?:(?:show|hide)[-_ ]?if\w*"
    r"|(?:show|hide|display|visible|hidden|reveal)[-_ ]?(?:to|for|from|when|unless|only)"
    r"|hide|hidden|visibility|secrets?|audience|conditional[-_ ]?(?:content|display|panel|section|text)"
    r"|(?:restrict|privat|secur|confidential|protect|permi[st]|encrypt)[a-z]*"
    r"|(?:admin|group|member|staff|user)s?[-_ ]?only|comment)(?:$|[-_./ ])"
)
_READERS = re.compile(
    r"(?:account|audience|group|member|permission|principal|reader|role|user|viewer)s?(?:id|key|list|name)?s?\Z"
    r"|^(?:show|hide|hidden|visible|restricted|allowed|denied|shared)(?:to|for|from|with)\Z"
)
_WIKI_MACRO = re.compile(r"\{([\w./-]{1,80})(?::([^{}\n]{0,1000}))?\}")


def is_gate(name: str, parameters: Mapping[str, str], has_body: bool, plain: str | None = None) -> bool:
    """Return whether a macro chooses its readers, or its text in wiki markup has a macro that does. `name`: of the
    macro, in lower case; `parameters`: by name; `has_body`: parameters of a macro without a body may name people whom
    it shows; `plain`: its body, if that is no markup."""
    given = (re.sub(r"[-_. ]", "", key[-80:]) for key, value in parameters.items() if value and has_body)
    if _NAME.search(name) or any(map(_READERS.search, given)):
        return True
    if "wiki" not in name:
        return False
    found = ((one[1].lower(), parameters_of(one[2] or "")) for one in _WIKI_MACRO.finditer(plain or ""))
    return any(is_gate(inner, given, has_body=True) for inner, given in found)


def parameters_of(written: str) -> dict[str, str]:
    """Return the parameters in `a=b|c=d`, as wiki markup and rendered pages have them."""
    pairs = (part.partition("=") for part in written.split("|"))
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


_NOTE = "citelock-lost"
_NOTES_MAX, _KIND_MAX, _DIGITS_MAX = 200, 100, 6
_UNRESOLVED = ("include", "literalinclude", "reference", "csv-table by")
"""Begin the kinds whose target was not found; all other kinds are lost."""
_EMBEDDED = ("iframe", "object", "embed", "video", "audio")
_INLINE = frozenset({"a", "button", "span", "strong", "label", "summary", "h1", "h2", "h3", "h4", "h5", "h6"})


def with_losses(html: str, lost: Mapping[str, int]) -> str:
    """Return a body with a note of each kind of loss inside its end; `taken_losses` reads them."""
    notes = "".join(
        f'<data class="{_NOTE}" title="{escape(kind[:_KIND_MAX])}" value="{min(count, 10**_DIGITS_MAX - 1)}"></data>'
        for kind, count in sorted(lost.items())[:_NOTES_MAX]
        if count > 0
    )
    end = "</main>" if html.endswith("</main>") else ""
    return f"{html.removesuffix(end)}{notes}{end}" if notes else html


def taken_losses(root: Element) -> Counter[tuple[str, str]]:
    """Take the notes out of a tree and return them by (kind, outcome)."""
    ledger: Counter[tuple[str, str]] = Counter()
    for note in list(root.iter("data")):
        kind, count = note.get("title") or "", note.get("value") or ""
        if note.get("class") != _NOTE:
            continue
        if kind and count.isascii() and count.isdigit() and len(count) <= _DIGITS_MAX and len(ledger) < _NOTES_MAX:
            outcome = "unresolved" if kind.startswith(_UNRESOLVED) else "lost"
            ledger[kind[:_KIND_MAX], outcome] += int(count)
        note.drop_tree()
    return ledger


def wordless_elements(root: Element) -> Counter[tuple[str, str]]:
    """Count the elements of a tree that show something and say nothing: pictures without an alternative text, drawings,
    embedded objects. Icons in a line of text are none."""
    found: Counter[tuple[str, str]] = Counter()
    for picture in root.iter("img", "image"):
        words = (picture.get("alt") or "").strip()
        found["figure", "lost"] += not words or words == posixpath.basename(picture.get("src") or "")
    for drawing in root.iter("svg", "canvas"):
        above = drawing.getparent()
        is_hidden = drawing.get("aria-hidden") == "true" or drawing.get("role") == "presentation"
        found["drawing", "lost"] += not (is_hidden or (above is not None and above.tag in _INLINE))
    for element in root.iter(*_EMBEDDED):
        found["embedded object", "lost"] += element.getparent().tag not in _EMBEDDED
    return +found


MACROS = (f"{AC}structured-macro", f"{AC}macro")
Outcome = Literal["rendered", "resolved", "unresolved", "navigation", "hidden", "lost"]


class Macro(NamedTuple):
    """One macro of a page: lower-case name, parameters, and its body, rich or plain."""

    name: str
    parameters: Mapping[str, str]
    rich: Element | None
    plain: str | None
    file: str = ""  # the attachment that a parameter names
    target: tuple[str, str] | None = None  # space and title of the page that a parameter names


Handler: TypeAlias = "Callable[[Walk, Macro], Outcome | None]"
"""Writes what the macro leaves in the text; no outcome where only the other pages can tell (`transclusion`,
`page_lists`)."""


def _code(page: Walk, macro: Macro) -> Outcome:
    if macro.plain is None:
        return _unknown(page, macro)
    page.code(macro.plain, macro.parameters.get("language", ""), macro.parameters.get("title", ""))
    return "rendered"


def _panel(page: Walk, macro: Macro) -> Outcome:
    if macro.rich is None:
        return _unknown(page, macro)
    page.quote(macro.rich, macro.parameters.get("title", ""))
    return "rendered"


def _titled(page: Walk, macro: Macro) -> Outcome:
    """Return the title that readers see on a tab, a card or a fold, then its content."""
    page.paragraph(next((macro.parameters[name] for name in _SHOWN_TITLES if macro.parameters.get(name)), ""))
    return _unknown(page, macro)


_SHOWN_TITLES = (*("title", "label", "tab-name", "tabname", "tab-title", "tabtitle", "heading", "header", "name"), "")
_TITLED = re.compile(
    r"tab(?=s|[-_]|page|pane|item|panel|group|\d|\Z)|\bcard(?=s|[-_]|\Z)|accordion|expand|collaps|toggle|slide"
)


def _markup(page: Walk, macro: Macro) -> Outcome:
    """Write the rendered body of Markdown, HTML or wiki markup; readers do not see its source."""
    if macro.plain is None:
        return _unknown(page, macro)
    kind = next(kind for kind in _MARKUP if kind in macro.name)
    before = len(page.blocks)
    try:
        close_rendered_gates(tree := _MARKUP[kind](macro.plain))
        page.container(tree)
    except PageError:
        return "lost"
    return "rendered" if len(page.blocks) > before else "lost"


_MARKUP = MappingProxyType({"markdown": markdown_tree, "html": html_tree, "wiki": wiki_tree})


def _status(page: Walk, macro: Macro) -> Outcome:
    page.write(macro.parameters.get("title", ""))
    return "rendered"


def _jira(page: Walk, macro: Macro) -> Outcome:
    """Return the issue key or, of a list of issues, its title or query. The issues themselves are not on the page."""
    for name in ("key", "", "title", "jqlquery", "jql"):
        if macro.parameters.get(name):
            page.write(macro.parameters[name])
            return "rendered"
    return "navigation"


def _anchor(page: Walk, macro: Macro) -> Outcome:
    page.anchor(macro.parameters.get("", "") or macro.parameters.get("name", ""))
    return "rendered"


def _file(page: Walk, macro: Macro) -> Outcome:
    name = macro.file or macro.parameters.get("name", "")
    page.write(name)
    return "rendered" if name else "lost"


def _formula(page: Walk, macro: Macro) -> Outcome:
    if not macro.parameters.get("body"):
        return _unknown(page, macro)
    (page.write if "inline" in macro.name else page.paragraph)(macro.parameters["body"])
    return "rendered"


def _button(page: Walk, macro: Macro) -> Outcome:
    words = macro.parameters.get("label") or macro.parameters.get("title", "")
    page.write(words)
    return "rendered" if words else _unknown(page, macro)


def _diagram(page: Walk, macro: Macro) -> Outcome:
    named = (macro.parameters.get(name) for name in _DIAGRAM_NAMES)
    name = next(filter(None, named), macro.file)
    if not name:
        return _unknown(page, macro)
    page.write(f"[{name}]{OMISSION}")
    return "rendered"


_DIAGRAM_NAMES = ("diagramdisplayname", "diagramname", "displayname", "name", "filename", "title")


def _hideable(page: Walk, macro: Macro) -> Outcome:
    """Return its content, unless it is only there for other pages: to show it, or for a report of page properties."""
    return "hidden" if is_hidden(macro) else _unknown(page, macro)


def _include(page: Walk, macro: Macro) -> None:
    """Refer to the page that the macro names, by an element or, as older editors did, by its bare title."""
    named = next((macro.parameters[name] for name in _TITLES if macro.parameters.get(name)), "")
    space, title = macro.target or ("", named)
    page.refer(Reference(macro.name, title, space, excerpt_name(macro) if "excerpt" in macro.name else None))


def excerpt_name(macro: Macro) -> str:
    """Return the name of an excerpt or of a reference to one; empty if there is none."""
    return macro.parameters.get("multiexcerptname") or macro.parameters.get("name", "")


def is_excerpt(macro: Macro, name: str) -> bool:
    """Return whether a macro is the excerpt of this name; without a name any excerpt is."""
    return macro.name in _EXCERPTS and macro.rich is not None and name in ("", excerpt_name(macro))


def is_hidden(macro: Macro) -> bool:
    """Return whether a macro's content is hidden from some readers of its own page: it chooses its readers, or is an
    excerpt or page properties marked as hidden."""
    return is_gated(macro) or (macro.name in _HIDEABLE and macro.parameters.get("hidden", "").lower() == "true")


_EXCERPTS = frozenset({"excerpt", "multiexcerpt", "multiexcerpt-macro"})
_HIDEABLE = _EXCERPTS | {"details"}
_TITLES = ("", "pagewithexcerpt", "page", "pagetitle", "title")


def _listing(page: Walk, macro: Macro) -> Outcome | None:
    """Add a list of pages, if lists are wanted; return its outcome."""
    if not page.lists:
        return "navigation"
    space, title = macro.target or ("", macro.parameters.get("page", ""))
    page.list_pages(Listing(macro.name, macro.parameters, title, space))
    return None


def _navigation(_page: Walk, _macro: Macro) -> Outcome:
    return "navigation"


def _unknown(page: Walk, macro: Macro) -> Outcome:
    """Keep the body, for any macro; without a body the text that it would show is lost."""
    if macro.rich is not None:
        inline = macro.parameters.get("atlassian-macro-output-type", "").upper() == "INLINE"
        (page.inline if inline else page.container)(macro.rich)
        return "rendered"
    if macro.plain is not None:
        page.code(macro.plain)
        return "rendered"
    return "lost"


def _named(handler: Handler, names: str) -> dict[str, Handler]:
    return dict.fromkeys(names.split(), handler)


HANDLERS: Mapping[str, Handler] = MappingProxyType(
    {
        **_named(_code, "code code-pro noformat code-block mermaid plantuml"),
        **_named(_panel, "info note tip warning panel"),
        **_named(_unknown, "section column toc-zone div span table-plus"),
        **_named(_hideable, " ".join(sorted(_HIDEABLE))),
        **_named(_include, "include excerpt-include multiexcerpt-include multiexcerpt-include-macro"),
        **_named(_status, "status"),
        **_named(_jira, "jira jiraissues jiraissue"),
        **_named(_anchor, "anchor"),
        **_named(_formula, "eazy-math-inline easy-math-inline eazy-math-block easy-math-block mathinline mathblock"),
        **_named(_button, "ui-button aui-button button-hyperlink artifact-resource-macro"),
        **_named(_diagram, "drawio drawio-sketch inc-drawio gliffy lucidchart mermaid-cloud plantumlcloud balsamiq"),
        **_named(_file, "view-file viewpdf viewdoc viewxls viewppt"),
        **_named(_listing, "children detailssummary"),
        # Lists, reports and controls that the server fills in; their text is on the pages they point to.
        **_named(
            _navigation,
            "toc pagetree pagetreesearch recently-updated recently-updated-dashboard navmap livesearch search"
            " contributors contributors-summary content-by-label contentbylabel blog-posts gallery"
            " attachments profile profile-picture created modified-date page-info change-history index listlabels"
            " labels-list popular-labels related-labels recently-used-labels content-report-table cql-search"
            " create-from-template create-space-button task-report tasks-report-macro decisionreport favpages"
            " space-attachments space-details space-index spaces spaces-list userlister user-list network"
            " global-reports rss calendar roadmap widget iframe multimedia list-children style",
        ),
    }
)


def is_gated(macro: Macro) -> bool:
    """Return whether a macro chooses the readers of its body, which is then left out."""
    has_body = macro.rich is not None or macro.plain is not None
    return is_gate(macro.name, macro.parameters, has_body, macro.plain)


def shown_macros(tree: Element) -> Iterator[Macro]:
    """Yield the macros of a tree, outer ones first, except those that choose their readers, with their content."""
    from lxml import etree

    walk = etree.iterwalk(tree, events=("start",))
    for _, node in walk:
        if node.tag not in MACROS:
            continue
        if is_gated(macro := read_macro(node)):
            walk.skip_subtree()
        else:
            yield macro


def close_rendered_gates(tree: Element) -> None:
    """Put an empty macro where a rendered page (an HTML export, a view) has one that chooses its readers."""
    from lxml import etree

    for node in tree.xpath("descendant-or-self::*[@data-macro-name]"):
        name = node.get("data-macro-name").strip().lower()
        if is_gate(name, parameters_of(node.get("data-macro-parameters", "")), has_body=True):
            node.clear(keep_tail=True)
            node.tag = MACROS[0]
            node.set(f"{AC}name", name)
            etree.SubElement(node, f"{AC}parameter", {f"{AC}name": "group"}).text = "unknown"
            etree.SubElement(node, f"{AC}rich-text-body")


def render(page: Walk, macro: Macro) -> Outcome | None:
    """Write a macro's output into the text; the outcome, if known already, is for the ledger."""
    if is_gated(macro):
        return "hidden"
    handler = HANDLERS.get(macro.name)
    if handler is None:  # vendors vary these names
        is_markup = any(kind in macro.name for kind in _MARKUP)
        handler = _markup if is_markup else _titled if _TITLED.search(macro.name) else _unknown
    return handler(page, macro)


def read_macro(element: Element) -> Macro:
    """Return the macro that an `ac:structured-macro` or `ac:macro` element is."""
    parameters: dict[str, str] = {}
    rich: Any = None
    plain: str | None = None
    file = ""
    target: tuple[str, str] | None = None
    for child in element:
        if child.tag in (f"{AC}parameter", f"{AC}default-parameter"):
            parameters[child.get(f"{AC}name", "").lower()] = " ".join("".join(child.itertext()).split())
            for attachment in child.iter(f"{RI}attachment"):
                file = attachment.get(f"{RI}filename", "")
            for page in child.iter(f"{RI}page", f"{RI}blog-post"):
                target = page.get(f"{RI}space-key", ""), page.get(f"{RI}content-title", "")
        elif child.tag == f"{AC}rich-text-body":
            rich = child
        elif child.tag == f"{AC}plain-text-body":
            plain = "".join(child.itertext())
    return Macro(element.get(f"{AC}name", "").strip().lower(), parameters, rich, plain, file, target)
