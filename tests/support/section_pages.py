"""A page, and the sections that it is split into."""

from __future__ import annotations

from typing import Any

from rag_assets.steps.sections.splitting import sections_of_page
from rag_serving.artifacts.schema import PAGES


def page(body: str | None, **changes: Any) -> dict[str, Any]:
    row = dict.fromkeys(PAGES.columns.names)
    row |= {"page_id": "7", "version": 3, "title": "My Page", "body": body, "body_format": "storage"}
    return row | {"anchor_flavor": "cloud", "content_hash": "h"} | changes


def sections(body: str, **changes: Any) -> list[dict[str, Any]]:
    return sections_of_page(page(body, **changes)).sections
