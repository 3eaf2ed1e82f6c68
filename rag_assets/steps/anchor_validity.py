"""How many sections a link can be trusted to land on.

Belongs here: the figure over a table of sections.
Does not belong here: making anchors (`anchors`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

UNCONFIRMED = frozenset({"cloud-repeated", "html-above"})
"""Rules whose anchor may differ on the site: the new editor's suffix is not documented, and a heading without an
id on an HTML page is reached by the one above."""


@dataclass(frozen=True)
class AnchorFigures:
    """Counts of sections. A valid anchor is the only one of its name in its page, and its rule is confirmed."""

    sections: int
    repeated: int  # another heading of the page has the same anchor
    unconfirmed: int
    valid: int
    rules: Mapping[str, int]  # most first

    @property
    def validity(self) -> float:
        """The share of sections with a valid anchor; 1 where there are none."""
        return self.valid / self.sections if self.sections else 1.0


def anchor_figures(sections: pa.Table) -> AnchorFigures:
    """The figures of a table of SECTIONS. Text of other pages shares the anchor of the heading that shows it."""
    columns = (sections[name].to_pylist() for name in ("page_id", "anchor", "anchor_rule", "included_from"))
    rows = list(zip(*columns, strict=True))
    owners = Counter((page_id, anchor) for page_id, anchor, _, included_from in rows if included_from is None)
    repeated = [owners[page_id, anchor] > 1 for page_id, anchor, _, _ in rows]
    unconfirmed = [rule in UNCONFIRMED for _, _, rule, _ in rows]
    return AnchorFigures(
        sections=len(rows),
        repeated=sum(repeated),
        unconfirmed=sum(unconfirmed),
        valid=sum(not (twice or guessed) for twice, guessed in zip(repeated, unconfirmed, strict=True)),
        rules=dict(Counter(rule for _, _, rule, _ in rows).most_common()),
    )
