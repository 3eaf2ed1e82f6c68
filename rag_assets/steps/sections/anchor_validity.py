"""How many anchors a link can be trusted to land on.

Belongs here: the figure over a table of sections.
Does not belong here: making anchors (`anchors`), where the pages' own links land (`anchor_links`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from rag_assets.steps.sections.anchors import BORROWED

UNCONFIRMED = frozenset({"cloud-repeated", BORROWED})
"""Rules whose anchor may differ on the site: the new editor's suffix is not documented, and a heading without an
id on an HTML page is reached by the one above."""


@dataclass(frozen=True)
class AnchorFigures:
    """Counts of anchors: each section's, and the further ones that lead to it.

    A valid anchor is found in one section of its page only, and its rule is confirmed.
    """

    anchors: int
    repeated: int  # another section of the page has the same anchor
    unconfirmed: int
    valid: int
    rules: Mapping[str, int]  # most first

    @property
    def validity(self) -> float:
        """The share of valid anchors; 1 where there are none."""
        return self.valid / self.anchors if self.anchors else 1.0


def anchor_figures(sections: pa.Table) -> AnchorFigures:
    """Return the figures of a table of SECTIONS. Text of other pages shares the anchor of the heading that shows it."""
    columns = (sections[name].to_pylist() for name in ("page_id", "anchor", "anchor_rule", "anchors", "included_from"))
    anchors: list[tuple[tuple[str, str], str]] = []  # of a page, by which rule
    owners: Counter[tuple[str, str]] = Counter()
    for page_id, anchor, rule, further, included_from in zip(*columns, strict=True):
        of_section = {anchor: rule, **{one["name"]: one["rule"] for one in further or ()}}
        anchors += (((page_id, name), made_by) for name, made_by in of_section.items())
        owners.update((page_id, name) for name in of_section if included_from is None)
    repeated = [owners[place] > 1 for place, _ in anchors]
    unconfirmed = [rule in UNCONFIRMED for _, rule in anchors]
    return AnchorFigures(
        anchors=len(anchors),
        repeated=sum(repeated),
        unconfirmed=sum(unconfirmed),
        valid=sum(not (twice or guessed) for twice, guessed in zip(repeated, unconfirmed, strict=True)),
        rules=dict(Counter(rule for _, rule in anchors).most_common()),
    )
