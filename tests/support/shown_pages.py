"""Pages that show text of other pages, and what is read from them."""

from __future__ import annotations

from typing import Any

from rag_assets.steps.sections.splitting import SectionsResult, build_sections
from rag_serving.access.principals import EVERYONE
from rag_serving.artifacts.schema import PAGES

STAFF = "group:staff"
READERS = ["everyone", "group:a", "group:b", "group:a&group:b", "nobody"]


class Words:
    """Every word is a token."""

    name = "words"

    def offsets(self, texts: Any) -> list[Any]:
        import re

        import numpy as np

        return [np.array([m.span() for m in re.finditer(r"\S+", text)], np.int32).reshape(-1, 2) for text in texts]


def page(title: str, body: str, **changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(PAGES.columns.names, "")
    row |= {"page_id": title.lower().replace(" ", "-"), "version": 1, "space": "ENG", "title": title, "body": body}
    row |= {
        "url": "https://w.example/x",
        "labels": [],
        "ancestors": [],
        "ancestor_titles": [],
        "position": None,
        "updated_at": None,
    }
    row |= {"readers": EVERYONE, "body_format": "storage", "anchor_flavor": "datacenter"}
    return row | {"content_hash": f"{title}|{body}"} | changes


def include(title: str, space: str = "", macro: str = "include", **parameters: str) -> str:
    key = f' ri:space-key="{space}"' if space else ""
    link = f'<ac:link><ri:page{key} ri:content-title="{title}"/></ac:link>'
    more = "".join(f'<ac:parameter ac:name="{name}">{value}</ac:parameter>' for name, value in parameters.items())
    return (
        f'<p><ac:structured-macro ac:name="{macro}"><ac:parameter ac:name="">{link}</ac:parameter>{more}'
        "</ac:structured-macro></p>"
    )


def excerpt(text: str, **parameters: str) -> str:
    given_ = "".join(f'<ac:parameter ac:name="{name}">{value}</ac:parameter>' for name, value in parameters.items())
    body = f"<ac:rich-text-body><p>{text}</p></ac:rich-text-body>"
    return f'<ac:structured-macro ac:name="excerpt">{given_}{body}</ac:structured-macro>'


def build(*pages: dict[str, Any]) -> SectionsResult:
    return build_sections(PAGES.table(list(pages)))


def said(result: SectionsResult, page_id: str = "outer") -> list[tuple[list[str], str, str, str | None]]:
    """Path, anchor, text and further readers of a page's sections."""
    return [
        (row["heading_path"], row["anchor"], row["text"], row["also_readers"])
        for row in result.sections.to_pylist()
        if row["page_id"] == page_id
    ]


def outcomes(result: SectionsResult, page_id: str = "outer") -> dict[tuple[str, str], int]:
    rows = (row for row in result.ledger.to_pylist() if row["page_id"] == page_id)
    return {(row["macro"], row["outcome"]): row["count"] for row in rows}
