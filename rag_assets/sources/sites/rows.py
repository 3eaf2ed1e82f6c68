"""One page of a site as a row of PAGES.

Belongs here: the columns, the version that a row has, its place among the others.
Does not belong here: which pages there are and which are read (`source`), their text (the generators).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from rag_assets.sources.base import Row
from rag_assets.sources.envelope import content_hash
from rag_assets.sources.sites.site import SiteBody, SitePage, SitePlan
from rag_assets.steps.formats.blocks import clean
from rag_assets.steps.formats.losses import with_losses
from rag_assets.steps.readers.readers import space_readers
from rag_serving.config.sources import SiteSource

TITLE_MAX, LABEL_MAX, LABELS_MAX = 500, 200, 100
_CONTROL = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True)
class PageFacts:
    """What a page's row says beside its text; `version`: the highest that the page had, 0 where it is new."""

    source: str
    page_id: str
    url: str
    version: int
    written_at: datetime


def row_of(settings: SiteSource, facts: PageFacts, page: SitePage, body: SiteBody, last: Row | None) -> Row:
    """Return the row of a page that was read; one that says the same as the last keeps its version and time."""
    title = _line(body.title, TITLE_MAX) or _line(page.name, TITLE_MAX)
    title = f"{title} ({page.version})" if page.version else title
    html = with_losses(body.html, body.lost)
    hashed = content_hash(title, html, "html", "html")
    is_same = last is not None and last["content_hash"] == hashed
    written_at = last["updated_at"] if last is not None and is_same else facts.written_at
    labels = [label for one in body.labels[:LABELS_MAX] if (label := _line(one, LABEL_MAX))]
    category = body.category or page.category
    return {
        "source": facts.source,
        "tenant": settings.tenant,
        "page_id": facts.page_id,
        "version": facts.version if is_same else facts.version + 1,
        "space": settings.space or facts.source,
        "title": title,
        "url": facts.url,
        "status": "current",
        "updated_at": body.updated_at or written_at,
        "labels": labels,
        "ancestors": [],
        "ancestor_titles": [],
        "position": None,
        "readers": space_readers(settings.readers),
        "body": html,
        "body_format": "html",
        "anchor_flavor": "html",
        "content_hash": hashed,
        "original": None,
        "lang": body.lang,
        "source_file": _line(page.name, 4096),
        "slug": body.slug,
        "category": _line(category, LABEL_MAX) if category else None,
        "chapter": page.number,
    }


def placed(plan: SitePlan, page_ids: Mapping[str, str], rows: dict[str, Row]) -> None:
    """Write into each row the pages above it and its place below them; those above without a row are left out.

    Args:
        plan: the pages in reading order.
        page_ids: ids of the rows, by the pages' names.
        rows: by id; those of pages are changed.
    """
    positions: Counter[str] = Counter()
    for page in plan.pages:
        page_id = page_ids.get(page.name, "")
        if page_id not in rows:
            continue
        above = [one for name in page.parents if (one := page_ids.get(name, "")) in rows and one != page_id]
        parent = above[-1] if above else ""
        place = {
            "ancestors": above,
            "ancestor_titles": [rows[one]["title"] for one in above],
            "position": positions[parent],
        }
        positions[parent] += 1
        rows[page_id] = {**rows[page_id], **place}


def _line(text: str, longest: int) -> str:
    """Return a text on one line, no longer than `longest` characters."""
    return clean(_CONTROL.sub(" ", text[: 4 * longest]))[:longest].strip()
