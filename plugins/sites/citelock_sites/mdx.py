"""MDX as Docusaurus reads it, written as Markdown that everything reads."""

from __future__ import annotations

import html
import posixpath
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from citelock_sites.js_values import JsError, constants
from citelock_sites.templates import is_gap, text_of_value
from rag_assets.sources.sites.front_matter import YamlError, read_yaml, split_front_matter
from rag_assets.sources.sites.markdown_page import HEADINGS, RAW, fence_run, is_end, opening, outside
from rag_assets.sources.sites.site import SourceTree, resolved, text_of
from rag_assets.steps.files.records import FileError
from rag_serving.text.normalization import OMISSION

_ESM = re.compile(r"(?:import|export)\b")
_IMPORT = re.compile(r"import\s+(\w+)\s+from\s+['\"]([^'\"\n]+\.(?:mdx?|json))['\"]")
_TAG = re.compile(r"</?([A-Za-z][\w.:-]*)|</?>")
_NAME = re.compile(r"[A-Za-z_:@][\w.:-]*")
_DIRECTIVE = re.compile(r"( *):{3,}([A-Za-z][\w-]*)([^\n]*)")
_DIRECTIVE_END = re.compile(r" *:{3,} *$")
_LIST_ITEM = re.compile(r"( *)(?:[-*+]|\d{1,9}[.)])( {1,4}|$)")
_COMMENT_ID = re.compile(r"\{/\*\s*(#[^\s*}]{1,300})\s*\*/\}[ ]*$", re.MULTILINE)
_INSERTED = re.compile(r"\$\{([^{}`]*)\}")
_MARKDOWN = re.compile(r"[\\`*_\[\]<>{}|]")
_MAGIC = re.compile(r"(?://|#|--|/\*|\{/\*|<!--) {0,9}highlight-(?:next-line|start|end) {0,9}(?:\*/\}?|-->)?")
_TICKS = re.compile("`+")
_BRACE = re.compile(r"[{}]|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`|/\*(?:[^*]|\*(?!/))*\*/")
_SPECIAL = re.compile(r"[\\`{<]")
_KEPT = ("href", "src", "alt", "id", "title", "start", "colspan", "rowspan", "value")
_LINKS, _QUOTES = frozenset({"Link", "a"}), frozenset({"Admonition"})
_LOST_NAME = 60
_EXPRESSION_MAX = 20_000
PART = "data-part"
"""The attribute of the `<div>` around a file that is inserted: Docusaurus makes ids of headings file by file."""
_DEPTH_MAX, _INSERTED_MAX = 10, 5_000_000
_FAILURES_MAX = 200
"""Of braces and tags that never end; after so many on a page they are taken for text without a look."""

Read = Callable[[str], str | None]
Partial = Callable[[str, str], tuple[str, str] | None]
"""Called with a file's name and the path that it imports; returns name and text of the Markdown file, or None."""


@dataclass
class Mdx:
    """One page's MDX; `lost` counts components and expressions without text."""

    name: str
    partial: Partial
    known: Mapping[str, Any] = field(default_factory=dict)  # values by the names that expressions have for them
    lost: Counter[str] = field(default_factory=Counter)
    read: list[str] = field(default_factory=list)
    _above: tuple[str, ...] = ()
    _inserted: int = 0
    _failures: int = 0

    def markdown(self, text: str) -> str:
        """Return the page as Markdown: the content of components stays, an admonition is a `<blockquote>` that begins
        with its title in bold, a tab its title in bold before its content."""
        lines = _flush_left(text.split("\n"))
        parts = [
            (lines[begin:end], None) if is_code else _without_modules(lines[begin:end])
            for begin, end, is_code in outside(lines)
        ]
        partials = self._imported("\n".join(modules for _, modules in parts if modules))
        out: list[str] = []
        for kept, modules in parts:
            out += _code(kept) if modules is None else self._without_jsx("\n".join(kept), partials).split("\n")
        return "\n".join(_directives(_flush_left(out)))

    def _imported(self, modules: str) -> dict[str, str]:
        """Return the paths of imported Markdown by the names that it has; literals and imported data become known."""
        partials = {match[1]: match[2] for match in _IMPORT.finditer(modules)}
        with suppress(JsError, YamlError):
            self.known = {**self.known, **constants(modules)}
            for name in [name for name, path in partials.items() if path.endswith(".json")]:
                path, data = self.partial((self._above or (self.name,))[-1], partials.pop(name)) or ("", "")
                self.known = {**self.known, name: read_yaml(data)}
                self.read.append(path)
        return partials

    def _without_jsx(self, text: str, partials: dict[str, str]) -> str:
        text = _COMMENT_ID.sub(r"{\1}", text)
        if "<" not in text and "{" not in text:
            return text
        out: list[str] = []
        at = 0
        while at < len(text):
            char = text[at]
            if char == "\\" and at + 1 < len(text):
                out.append(text[at : at + 2])
                at += 2
            elif self._failures > _FAILURES_MAX:
                after = _next_special(text, at + 1)
                out.append(text[at:after].replace("<", "&lt;"))
                at = after
            elif char == "`":
                at = self._copied_code(text, at, out)
            elif char == "{":
                at = self._expression(text, at, out)
            elif char == "<" and (tag := _TAG.match(text, at)):
                at = self._element(text, tag, out, partials)
            else:
                after = _next_special(text, at + 1)
                out.append(text[at:after])
                at = after
        return "".join(out)

    def _expression(self, text: str, at: int, out: list[str]) -> int:
        """Write the value of an expression if it is known; the id of a heading stays."""
        if text.startswith("{#", at):
            out.append("{")
            return at + 1
        end = _balanced(text, at)
        if end is None:
            self._failures += 1
            out.append("&#123;")
            return at + 1
        expression = text[at + 1 : end - 1].strip()
        value = self._text(expression)
        if value is not None:
            out.append(_MARKDOWN.sub(r"\\\g<0>", value))
        elif expression and not (expression.startswith("/*") and expression.endswith("*/")):
            self.lost["expression"] += 1
            out.append(OMISSION if is_gap(text, at, end) else "")
        return end

    def _text(self, expression: str) -> str | None:
        """Return the text that an expression comes to; None if that is not known."""
        if len(expression) > 1 and expression[0] == expression[-1] == "`":
            parts = _INSERTED.split(expression[1:-1])
            texts = [text_of_value(part, self.known) if place % 2 else part for place, part in enumerate(parts)]
            return "".join(map(str, texts)) if None not in texts else None
        return text_of_value(expression.replace("?.", "."), self.known)

    def _element(self, text: str, tag: re.Match[str], out: list[str], partials: dict[str, str]) -> int:
        name, is_close = tag[1] or "", tag[0].startswith("</")
        parsed = _attributes(text, tag.end(), self._text)
        if parsed is None:
            self._failures += 1
            out.append("&lt;")
            return tag.start() + 1
        attributes, is_empty, end = parsed
        is_block = _is_alone(text, tag.start(), end)
        if not is_close and name in partials:
            inserted = self._inserted_text(partials[name], attributes)
            is_lost = not inserted and is_gap(text, tag.start(), end)
            out.append(OMISSION if is_lost else f"\n\n<div {PART}>\n\n{inserted}\n\n</div>\n\n")
            return end
        if name in ("TabItem", "summary", *_QUOTES):
            is_block = is_block or name != "summary"
        is_empty = is_empty or (not is_close and text.startswith(f"</{name}>", end))
        written = self._written(name, attributes, is_close, is_empty)
        if is_empty and name[:1].isupper() and not (written or is_block or name.endswith("Icon")):
            written = OMISSION
        indent = _indent_before(text, tag.start()) if is_block else ""
        out.append(f"\n\n{indent}{written}\n\n{indent}" if is_block else written)
        return end

    def _inserted_text(self, path: str, props: Mapping[str, str]) -> str:
        """Return a partial as Markdown, with the attributes that it is given; one that inserts itself is lost."""
        above = self._above or (self.name,)
        found = self.partial(above[-1], path)
        if found is None or found[0] in above or len(above) > _DEPTH_MAX:
            self.lost["include"] += 1
            return ""
        name, text = found
        self.read.append(name)
        self._inserted += len(text)
        if self._inserted > _INSERTED_MAX:
            raise FileError(f"what it includes is longer than {_INSERTED_MAX} characters")
        known, self._above = self.known, (*above, name)
        self.known = {"props": props, "siteConfig": known.get("siteConfig")}
        written = self.markdown(text)
        self.known, self._above = known, above
        return written

    def _copied_code(self, text: str, at: int, out: list[str]) -> int:
        """Copy inline code, or backticks that are none."""
        ticks = _TICKS.match(text, at)
        assert ticks is not None
        paragraph = text.find("\n\n", at)
        limit = paragraph if paragraph >= 0 else len(text)
        for end in _TICKS.finditer(text, ticks.end(), limit):
            if end[0] == ticks[0]:
                out.append(text[at : end.end()])
                return end.end()
        self._failures += 1
        out.append(ticks[0])
        return ticks.end()

    def _written(self, name: str, attributes: dict[str, str], is_close: bool, is_empty: bool) -> str:
        if name in _LINKS:
            href = attributes.get("to") or attributes.get("href") or ""
            return "</a>" if is_close else f'<a href="{html.escape(href)}">' if not is_empty else ""
        if name == "TabItem":
            return "" if is_close else _bold(attributes.get("label") or attributes.get("value") or "")
        if name in _QUOTES:
            title = attributes.get("title") or attributes.get("type", "").capitalize()
            return "</blockquote>" if is_close else f"<blockquote>\n\n{_bold(title)}"
        if not name or name[0].isupper() or "." in name:
            if is_empty and name:
                self.lost[f"component {name[:_LOST_NAME]}"] += 1
            return ""
        if is_close:
            return f"</{name}>"
        mark = f" {RAW}" if name in HEADINGS else ""
        kept = mark + "".join(f' {key}="{html.escape(attributes[key])}"' for key in _KEPT if attributes.get(key))
        return f"<{name}{kept}{' /' if is_empty else ''}>"


def mdx_markdown(
    tree: SourceTree, name: str, text: str, known: Mapping[str, Any]
) -> tuple[str, list[str], Counter[str]]:
    """Return a page of MDX as Markdown, the files that it includes, and its losses; see `Mdx`."""
    mdx = Mdx(name, partials_of(tree), known)
    return mdx.markdown(text), mdx.read, mdx.lost


def partials_of(tree: SourceTree) -> Partial:
    """Return a reader of the files that the pages of a tree import; `@site` is its root."""

    def read(name: str, path: str) -> tuple[str, str] | None:
        target = path.removeprefix("@site/") if path.startswith("@site/") else resolved(name, path)
        if target is None or target.startswith(("../", "/")):
            return None
        try:
            _, text = split_front_matter(text_of(tree.read(posixpath.normpath(target))))
        except (KeyError, FileError):
            return None
        return posixpath.normpath(target), text

    return read


def _without_modules(lines: Sequence[str]) -> tuple[Sequence[str], str]:
    kept: list[str] = []
    modules: list[str] = []
    is_module, may_begin = False, True
    for line in lines:
        if not line.strip():
            is_module, may_begin = False, True
        elif may_begin and _ESM.match(line):
            is_module = True
        (modules if is_module else kept).append(line)
        may_begin = may_begin and (is_module or not line.strip())
    return kept, "\n".join(modules)


def _flush_left(lines: Sequence[str]) -> list[str]:
    """Return lines without code by indentation, which MDX does not know: text deeper than its list is moved left."""
    out: list[str] = []
    margins = [0]
    run, shift = "", 0
    for line in lines:
        stripped = line.lstrip(" \t") if not run else line.lstrip(" ")
        indent = len(line) - len(stripped)
        if run:
            out.append(line[min(shift, indent) :])
            run = "" if is_end(stripped, run) else run
            continue
        if not stripped:
            out.append("")
            continue
        while len(margins) > 1 and indent < margins[-1]:
            margins.pop()
        shift = indent - margins[-1] if indent - margins[-1] >= 4 else 0
        out.append(" " * (indent - shift) + stripped)
        run = fence_run(stripped)
        if item := _LIST_ITEM.match(" " * (indent - shift) + stripped):
            margins.append(item.end() if item[2] else item.end() + 1)
    return out


def _code(lines: Sequence[str]) -> list[str]:
    """Return fenced code with its title before it, without the comments that mark lines."""
    first, title, info = opening(lines[0])
    indent = first[: len(first) - len(first.lstrip(" "))]
    if info.startswith("mdx-code-block"):
        return [*lines[1:-1]]
    body = [line for line in lines[1:-1] if not ("highlight-" in line and _MAGIC.fullmatch(line.strip()))]
    head = ["", f"{indent}{_bold(title)}", ""] if title else []
    return [*head, first, *body, *lines[-1:]] if len(lines) > 1 else [*head, first]


def _directives(lines: Sequence[str]) -> list[str]:
    """Return lines with admonitions (`:::note Title`) as `<blockquote>`; one that is not closed ends with the page."""
    out: list[str] = []
    opened: list[str] = []
    run = ""
    for line in lines:
        stripped = line.lstrip(" ")
        if run:
            run = "" if is_end(stripped, run) else run
            out.append(line)
        elif stripped.startswith(":::") and (begin := _DIRECTIVE.match(line)):
            indent, title = begin[1], _directive_title(begin[3]) or begin[2].capitalize()
            out += ["", f"{indent}<blockquote>", "", f"{indent}{_bold(title)}", ""]
            opened.append(indent)
        elif opened and stripped.startswith(":::") and _DIRECTIVE_END.match(line):
            out += ["", f"{opened.pop()}</blockquote>", ""]
        else:
            run = fence_run(stripped)
            out.append(line)
    for indent in reversed(opened):
        out += ["", f"{indent}</blockquote>", ""]
    return out


def _directive_title(rest: str) -> str:
    """Return the title after an admonition's kind: `[Title]`, `[Title]{.class}` or ` Title`."""
    words = rest.strip()
    if words.endswith("}"):
        words = words[: words.rfind("{")].strip() if "{" in words else words
    return words[1:-1].strip() if words.startswith("[") and words.endswith("]") else words


def _attributes(text: str, at: int, read: Read) -> tuple[dict[str, str], bool, int] | None:
    """Return the attributes of a tag, whether it is empty, and where it ends; None if it is no tag.

    Only values that are known are kept; `read` returns that of an expression.
    """
    found: dict[str, str] = {}
    limit = min(len(text), at + _EXPRESSION_MAX)
    while at < limit:
        char = text[at]
        if char.isspace():
            at += 1
        elif char == ">":
            return found, False, at + 1
        elif text.startswith("/>", at):
            return found, True, at + 2
        elif char == "{":
            end = _balanced(text, at)
            if end is None:
                return None
            at = end
        elif name := _NAME.match(text, at):
            at = name.end()
            if text.startswith("=", at):
                value, after = _value(text, at + 1, read)
                if after is None:
                    return None
                found |= {name[0]: value} if value is not None else {}
                at = after
        else:
            return None
    return None


def _value(text: str, at: int, read: Read) -> tuple[str | None, int | None]:
    if text[at : at + 1] in ("'", '"'):
        end = text.find(text[at], at + 1)
        return (html.unescape(text[at + 1 : end]), end + 1) if end > 0 else (None, None)
    if text[at : at + 1] == "{":
        after = _balanced(text, at)
        return (read(text[at + 1 : after - 1].strip()) if after else None), after
    return None, None


def _balanced(text: str, at: int) -> int | None:
    """Return where the expression that begins at a brace ends; None if it has no end, or is longer than 20,000."""
    depth = 0
    for match in _BRACE.finditer(text, at, min(len(text), at + _EXPRESSION_MAX)):
        if match[0] == "{":
            depth += 1
        elif match[0] == "}":
            depth -= 1
            if not depth:
                return match.end()
    return None


def _next_special(text: str, at: int) -> int:
    match = _SPECIAL.search(text, at)
    return match.start() if match else len(text)


def _is_alone(text: str, begin: int, end: int) -> bool:
    """Return whether a tag has its lines to itself."""
    before, after = text.rfind("\n", 0, begin) + 1, text.find("\n", end)
    return not text[before:begin].strip() and not text[end : after if after >= 0 else len(text)].strip()


def _indent_before(text: str, at: int) -> str:
    begin = text.rfind("\n", 0, at) + 1
    return text[begin:at] if not text[begin:at].strip() else ""


def _bold(title: str) -> str:
    words = title.replace("**", "").strip()
    return f"**{words}**" if words else ""
