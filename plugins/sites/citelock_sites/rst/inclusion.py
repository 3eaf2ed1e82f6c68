"""Directives that show code or bring in files."""

from __future__ import annotations

import ast
import re
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive, directives
from docutils.parsers.rst.directives.tables import CSVTable
from docutils.statemachine import StringList, string2lines

from citelock_sites.rst.context import context_of, names

_SHOWN = directives.unchanged
_LANGUAGES = {"prompt": "bash", "console": "console", "ipython": "python", "testcode": "python", "doctest": "pycon"}
_FROM_ENDING = {
    "py": "python", "js": "javascript", "ts": "typescript", "yml": "yaml", "yaml": "yaml", "sh": "bash", "json": "json",
    "c": "c", "h": "c", "cpp": "cpp", "rs": "rust", "go": "go", "java": "java", "toml": "toml", "xml": "xml",
    "html": "html", "css": "css", "rb": "ruby", "sql": "sql",
}  # fmt: skip


class CodeBlock(Directive):  # type: ignore[misc]
    """`code-block`: a caption in a line before the code."""

    optional_arguments = 1
    has_content = True
    final_argument_whitespace = True
    option_spec = dict.fromkeys(
        names(
            "caption name class linenos lineno-start number-lines emphasize-lines force dedent hide options "
            "pyversion skipif no-trim-doctest-flags language prompts modifiers"
        ),
        _SHOWN,
    )

    def run(self) -> list[Any]:
        """Return caption and code."""
        language = self.arguments[0].split()[0] if self.arguments and self.name not in _LANGUAGES else ""
        lines = list(self.content)
        if "dedent" in self.options:
            lines = _dedented(lines, self.options["dedent"])
        context = context_of(self.state.document)
        language = language or _LANGUAGES.get(self.name) or context.language
        return shown(self, "\n".join(lines), language)


class Highlight(Directive):  # type: ignore[misc]
    """`highlight`: the language of code that does not say its own."""

    required_arguments = 1
    option_spec = dict.fromkeys(("linenothreshold", "force"), _SHOWN)

    def run(self) -> list[Any]:
        """Note the language."""
        context_of(self.state.document).language = self.arguments[0]
        return []


class Include(Directive):  # type: ignore[misc]
    """`include`: the lines of another file in place of the directive."""

    required_arguments = 1
    final_argument_whitespace = True
    option_spec = dict.fromkeys(
        names(
            "literal code encoding parser tab-width start-line end-line start-after end-before number-lines "
            "class name heading-offset relative-docs relative-images"
        ),
        _SHOWN,
    )

    def run(self) -> list[Any]:
        """Insert the lines where the parser is."""
        context = context_of(self.state.document)
        source, _ = self.state_machine.get_source_and_line(self.lineno)
        found = context.file(self.arguments[0].strip(), source or context.name or "page")
        if found is None:
            context.lost["include"] += 1
            return []
        name, text = found
        text = _between("\n".join(_numbered(text.splitlines(), self.options)), self.options)
        if "literal" in self.options or "code" in self.options:
            return shown(self, text, self.options.get("code", "").strip())
        if hasattr(self.state, "_renderer") and not self.options.get("parser"):
            # Have myst-parser read the lines where it is, as its own directive does
            renderer, offset = self.state._renderer, self.options.get("heading-offset", "0")
            above, renderer.document["source"] = renderer.document["source"], name
            try:
                renderer.nested_render_text(text, 0, heading_offset=int(offset) if re.fullmatch(r"\d", offset) else 0)
            finally:
                renderer.document["source"] = above
            return []
        if self.options.get("parser") or name.endswith((".md", ".markdown")):
            context.lost["include of another markup"] += 1
            return shown(self, text, "markdown")
        end = f".. end of included file {len(context.read)}"
        lines = string2lines(text, tab_width=8, convert_whitespace=True)
        self.state_machine.insert_input([*lines, "", end], name)
        return []


class LiteralInclude(CodeBlock):
    """`literalinclude`: lines of another file as code."""

    required_arguments = 1
    optional_arguments = 0
    has_content = False
    option_spec = dict.fromkeys(
        names(
            "caption name class linenos lineno-start lineno-match emphasize-lines force dedent language "
            "encoding tab-width pyobject lines start-after end-before start-at end-at prepend append diff"
        ),
        _SHOWN,
    )

    def run(self) -> list[Any]:
        """Return caption and code."""
        context = context_of(self.state.document)
        name = self.arguments[0].strip()
        found = context.file(name)
        if found is None:
            context.lost["literalinclude"] += 1
            return []
        lines = _chosen(found[1], self.options)
        if "dedent" in self.options:
            lines = _dedented(lines, self.options["dedent"])
        lines = [*filter(None, [self.options.get("prepend")]), *lines, *filter(None, [self.options.get("append")])]
        language = self.options.get("language") or _FROM_ENDING.get(name.rpartition(".")[2], "")
        if "caption" in self.options and not self.options["caption"]:
            self.options["caption"] = name
        return shown(self, "\n".join(lines), language)


class TreeCsvTable(CSVTable):  # type: ignore[misc]
    """`csv-table` whose file lies in the tree."""

    def run(self) -> list[Any]:
        """Return the table, with a file's lines as its content."""
        context = context_of(self.state.document)
        name = self.options.pop("file", None)
        if self.options.pop("url", None) is not None:
            context.lost["csv-table by address"] += 1
            return []
        if name is not None:
            found = context.file(name)
            if found is None:
                context.lost["csv-table by file"] += 1
                return []
            self.content = StringList(found[1].splitlines(), source=found[0])
        result: list[Any] = super().run()
        return result


def shown(directive: Any, text: str, language: str) -> list[Any]:
    """Return code after its caption, with the id of its name."""
    block = nodes.literal_block(text, text, language="" if language in ("none", "text", "default") else language)
    found: list[Any] = [block]
    if caption := directive.options.get("caption"):
        words, messages = directive.state.inline_text(caption, directive.lineno)
        found = [nodes.container("", nodes.paragraph("", "", *words), block, *messages)]
    if directive.options.get("name"):
        directive.add_name(found[0])
    return found


def _chosen(text: str, options: dict[str, str]) -> list[str]:
    if name := options.get("pyobject"):
        try:
            body: Any = ast.parse(text)
            for part in name.split("."):
                body = next(node for node in body.body if getattr(node, "name", None) == part)
        except (SyntaxError, ValueError, StopIteration, RecursionError, AttributeError, MemoryError):
            return []
        first = min([body.lineno, *(one.lineno for one in body.decorator_list)])
        return text.splitlines()[first - 1 : body.end_lineno]
    lines = text.splitlines()
    if wanted := options.get("lines"):
        lines = [lines[number] for number in _line_numbers(wanted, len(lines))]
    return _between("\n".join(lines), options, whole_lines=True).splitlines()


def _line_numbers(wanted: str, count: int) -> list[int]:
    found: list[int] = []
    for part in wanted.split(","):
        match = re.fullmatch(r"(\d{0,7})(-?)(\d{0,7})", part.replace(" ", ""))
        if match and (match[1] or match[3]):
            first = int(match[1] or 1)
            last = int(match[3] or count) if match[2] else first
            found += range(max(first, 1) - 1, min(last, count))
    return found[:count]


def _numbered(lines: list[str], options: dict[str, str]) -> list[str]:
    bounds = [options.get(name, "").strip() for name in ("start-line", "end-line")]
    first, last = (int(one) if re.fullmatch(r"-?\d{1,7}", one) else None for one in bounds)
    return lines[first:last]


def _between(text: str, options: dict[str, str], whole_lines: bool = False) -> str:
    """Return the text between the marks named by the options; with `whole_lines` a mark takes its line."""
    for name in ("start-after", "start-at"):
        mark = options.get(name)
        if mark and (at := text.find(mark)) >= 0:
            end = at + len(mark)
            if name == "start-at":
                text = text[text.rfind("\n", 0, at) + 1 :]
            elif whole_lines:
                text = text[end:].partition("\n")[2]
            else:
                text = text[end:]
    for name in ("end-before", "end-at"):
        mark = options.get(name)
        if mark and (at := text.find(mark)) >= 0:
            if name == "end-at":
                line_end = text.find("\n", at)
                text = text if line_end < 0 else text[:line_end]
            else:
                text = text[: text.rfind("\n", 0, at) + 1] if whole_lines else text[:at]
    return text


def _dedented(lines: list[str], value: str) -> list[str]:
    if not value:
        from textwrap import dedent

        return dedent("\n".join(lines)).split("\n")
    count = int(value) if re.fullmatch(r"\d{1,3}", value) else 0
    return [line[count:] for line in lines]
