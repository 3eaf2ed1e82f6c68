"""Budgets: how much of a document is kept, so that no small file becomes a large table; where and how it is cut."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from rag_assets.steps.formats.blocks import Block, Content

HEADING_MAX = 2_000
"""Characters; a longer heading is a paragraph, because each section below repeats its headings."""

_GAP = 2  # characters between two blocks
_NOTE = "\x1a\ue000"
"""Begins the note of a cut at the end of a body. What somebody else wrote after it is text, unless it is a reason."""

_REASON = re.compile(r"cut at [0-9,]{1,20} [a-z ]{1,30} \(documents\.max_[a-z_]{1,20}\)")


class Budget(NamedTuple):
    """The most that is kept of one document."""

    text_chars: int = 2_000_000
    headings: int = 10_000
    blocks: int = 100_000
    cells: int = 200_000

    def reason(self, name: str) -> str:
        """Return the exceeded quantity of a document cut at one of these limits, and its setting."""
        return f"cut at {getattr(self, name):,} {_WORDS[name]} (documents.max_{name})"


_WORDS = {"text_chars": "characters of text", "headings": "headings", "blocks": "blocks", "cells": "table cells"}

BUDGET = Budget()


def within(content: Content, budget: Budget = BUDGET) -> Content:
    """Return the content up to where it exceeds the budget, with the reason in `cut`; unchanged if it does not."""
    if any(block.kind == "heading" and len(block.text) > HEADING_MAX for block in content.blocks):
        blocks: list[Block] = []
        for block in content.blocks:
            if block.kind != "heading" or len(block.text) <= HEADING_MAX:
                blocks.append(block)
            else:  # is a paragraph that links still reach
                blocks += [Block("reference", "", anchors=block.anchors)] if block.anchors else []
                blocks.append(Block("paragraph", block.text))
        content = content._replace(blocks=blocks)
    spent = _BudgetSpent(budget)
    for place, block in enumerate(content.blocks):
        if (name := spent.take(block)) is not None:
            kept = [*content.blocks[:place], *spent.first_part(block, name)]
            return content._replace(blocks=kept, cut=budget.reason(name))
    return content


class _BudgetSpent:
    """The part of a budget used by the blocks so far."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._left = budget._asdict()
        self._paths = budget.text_chars  # characters of heading paths, which every section repeats
        self._above: list[tuple[int, int]] = []  # level and length of the headings above

    def take(self, block: Block) -> str | None:
        """Count a block; return the name of the limit that it exceeds."""
        costs = {"text_chars": len(block.text) + _GAP, "blocks": 1 + len(block.links), "cells": _cells(block)}
        costs["headings"] = int(block.kind == "heading")
        for name, cost in costs.items():
            if cost > self._left[name]:
                return name
        for name, cost in costs.items():
            self._left[name] -= cost
        if block.kind != "heading" or not block.level:
            return None
        while self._above and self._above[-1][0] >= block.level:
            self._above.pop()
        self._above.append((block.level, len(block.text)))
        self._paths -= sum(length for _, length in self._above)
        return "text_chars" if self._paths < 0 else None

    def first_part(self, block: Block, exceeded: str) -> list[Block]:
        """Return the part of a block that still fits: lines of code, words of prose, cells of a row."""
        if exceeded == "cells":
            return [_with_text(block, "|".join(block.text.split("|", self._left["cells"] + 1)[:-1]) + "|")]
        room = self._left["text_chars"] - _GAP
        if exceeded != "text_chars" or block.kind == "heading" or room <= 0:
            return []
        if block.kind == "code":
            fence, _, rest = block.text.partition("\n")
            end = fence[: len(fence) - len(fence.lstrip("`"))]
            body = rest[: max(room - 2 * len(fence) - 2, 0)].rpartition("\n")[0]
            return [_with_text(block, f"{fence}\n{body}\n{end}")] if body.strip() else []
        head = block.text[:room]
        words = head.rpartition(" |")[0] + " |" if block.kind == "table" else head.rsplit(None, 1)[0]
        return [_with_text(block, words)] if words.strip(" |") else []


def _with_text(block: Block, text: str) -> Block:
    return block._replace(text=text, linked=min(block.linked, len(text)))


def _cells(block: Block) -> int:
    if block.kind != "table":
        return 0
    row = block.text.partition("\n")[0]
    return row.count("|") - row.count("\\|") - 1


def noted(body: str, reason: str) -> str:
    """Return a body that was cut, with the reason after it; `without_note` parts them again."""
    return f"{body}{_NOTE}{reason}"


def without_note(body: str) -> tuple[str, str | None]:
    """Return a body and the reason why it was cut, None if it was not."""
    text, mark, reason = body.rpartition(_NOTE)
    return (text, reason) if mark and _REASON.fullmatch(reason) else (body, None)


def first_chars(text: str, budget: Budget) -> tuple[str, str | None]:
    """Return the text up to the budget, at the end of a line if there is one, and the reason of a cut."""
    if len(text) <= budget.text_chars:
        return text, None
    head = text[: budget.text_chars]
    return head[: head.rfind("\n") + 1] or head, budget.reason("text_chars")


def first_rows(rows: Sequence[Sequence[str]], budget: Budget) -> tuple[list[Sequence[str]], str | None]:
    """Return the rows of a table of which each is as wide as the widest, up to the budget, and the reason of a cut."""
    width = max(map(len, rows), default=1)
    most = max(budget.cells // max(width, 1), 1)
    return list(islice(rows, most)), budget.reason("cells") if len(rows) > most else None
