"""Markdown, read: CommonMark with tables, by way of the elements that storage format has too.

Belongs here: which Markdown is understood.
Does not belong here: what an element leaves in the text (`storage_elements`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rag_assets.steps.formats.blocks import Content
from rag_assets.steps.formats.element_tree import PageError
from rag_assets.steps.formats.losses import wordless_elements
from rag_assets.steps.formats.storage import parse_storage
from rag_assets.steps.formats.storage_elements import tree_content

_REPEATED_MAX = 2_000_000  # characters of the addresses that links repeat; a body that asks for more is hostile


def markdown_content(body: str) -> Content:
    """Return the blocks of a Markdown body; HTML inside it is read as HTML, pictures without words count as lost.

    Raises:
        PageError: it cannot be read.
    """
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": True, "xhtmlOut": True}).enable(["table", "strikethrough"])
    environment: dict[str, Any] = {}
    tokens = parser.parse(body, environment)
    if _repeated(tokens) > max(_REPEATED_MAX, 2 * len(body)):
        raise PageError(f"its links repeat addresses of more than {_REPEATED_MAX} characters")
    tree = parse_storage(parser.renderer.render(tokens, parser.options, environment))
    wordless = wordless_elements(tree)
    content = tree_content(tree)
    return content._replace(ledger=content.ledger + wordless)


def _repeated(tokens: Sequence[Any]) -> int:
    """Count the characters of attributes: a short link repeats the address and title that are written once."""
    inner = (child for token in tokens for child in token.children or ())
    return sum(len(value) for token in inner for value in token.attrs.values() if isinstance(value, str))
