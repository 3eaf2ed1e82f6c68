"""The glossary directive: terms with ids, and what they mean.

Belongs here: reading its lines. Does not belong here: finding a term from another page.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive, directives
from docutils.statemachine import StringList

from citelock_sites.rst.ids import term_id


class Glossary(Directive):  # type: ignore[misc]
    """`glossary`: terms, one or more above each other, and their meaning below, indented."""

    has_content = True
    option_spec = dict.fromkeys(("sorted",), directives.flag)

    def run(self) -> list[Any]:
        """Return a list of definitions."""
        items = [self._item(terms, meaning) for terms, meaning in self._entries()]
        if "sorted" in self.options:
            items.sort(key=lambda item: item.astext().lower())
        return [nodes.definition_list("", *items)]

    def _entries(self) -> list[tuple[list[str], StringList]]:
        found: list[tuple[list[str], StringList]] = []
        was_blank = True
        for number, line in enumerate(self.content):
            if not line.strip():
                was_blank = True
                if found:
                    found[-1][1].append(self.content[number : number + 1])
                continue
            if line.startswith((".. ", "..\t")):
                continue
            if line[0].isspace() and found:
                found[-1][1].append(self.content[number : number + 1])
            elif found and not was_blank and not any(text.strip() for text in found[-1][1]):
                found[-1][0].append(line)
            else:
                found.append(([line], StringList()))
            was_blank = False
        return found

    def _item(self, terms: list[str], meaning: StringList) -> Any:
        heads = []
        for line in terms:
            words, messages = self.state.inline_text(line.partition(" : ")[0], self.lineno)
            node = nodes.term("", "", *words, *messages)
            node["ids"].append(self._id(node.astext()))
            self.state.document.note_explicit_target(node)
            heads.append(node)
        body = nodes.definition()
        indents = [len(line) - len(line.lstrip()) for line in meaning if line.strip()]
        meaning.trim_left(min(indents, default=0))
        self.state.nested_parse(meaning, self.content_offset, body)
        return nodes.definition_list_item("", *heads, body)

    def _id(self, term: str) -> str:
        name, taken = term_id(term), self.state.document.ids
        number = 0
        while not name or name in taken:
            name, number = f"term-{number}", number + 1
        return name
