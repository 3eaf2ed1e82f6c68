"""Markdown, read, by way of the elements that storage format has too.

Belongs here: what counts as lost.
Does not belong here: which Markdown is understood (`markup_trees`), what elements leave in the text
(`storage_elements`).
"""

from __future__ import annotations

from rag_assets.steps.formats.blocks import Content
from rag_assets.steps.formats.losses import wordless_elements
from rag_assets.steps.formats.markup_trees import markdown_tree
from rag_assets.steps.formats.storage_elements import tree_content


def markdown_content(body: str) -> Content:
    """Return the blocks of a Markdown body; HTML inside it is read as HTML, pictures without words count as lost.

    Raises:
        PageError: it cannot be read.
    """
    tree = markdown_tree(body)
    wordless = wordless_elements(tree)
    content = tree_content(tree)
    return content._replace(ledger=content.ledger + wordless)
