"""Directives whose options are read whatever they are called.

Belongs here: what such directives have in common. Does not belong here: which directive reads which name
(`directives`).
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive, directives


class _AnyOption(dict[str, Any]):
    """An option table that has every name."""

    def __getitem__(self, key: str) -> Any:
        return directives.unchanged

    def __bool__(self) -> bool:
        return True


class Lenient(Directive):  # type: ignore[misc]
    """A directive whose options are read whatever they are called."""

    optional_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec = _AnyOption()

    @property
    def argument(self) -> str:
        """Return the argument, empty if there is none."""
        return self.arguments[0] if self.arguments else ""

    def inner(self) -> list[Any]:
        """Return the nodes of the content, sections too."""
        node = nodes.Element()
        self.state.nested_parse(self.content, self.content_offset, node, match_titles=False)
        return list(node.children)

    def words(self, text: str) -> list[Any]:
        """Return the inline nodes of a text."""
        found, messages = self.state.inline_text(text, self.lineno)
        return [*found, *messages]

    def labelled(self, text: str) -> list[Any]:
        """Return a paragraph in bold, none without text."""
        return [nodes.paragraph("", "", nodes.strong("", "", *self.words(text)))] if text.strip() else []

    def named(self, found: list[Any]) -> list[Any]:
        """Return nodes of which the first bears the option `name`."""
        if found and self.options.get("name"):
            self.add_name(found[0])
        return found
