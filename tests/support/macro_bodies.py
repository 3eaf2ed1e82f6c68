"""Bodies in storage format with macros, and what is read from them."""

from __future__ import annotations

from rag_assets.steps.sections.splitting import PageSections, sections_of_page


def read(body: str) -> PageSections:
    row = {"page_id": "1", "version": 1, "title": "T", "body": body, "body_format": "storage"}
    return sections_of_page({**row, "anchor_flavor": "cloud", "content_hash": "h"})


def text(body: str) -> str:
    return "\n\n".join(section["text"] for section in read(body).sections)


def macro(name: str, rich: str | None = None, plain: str | None = None, **parameters: str) -> str:
    body = "".join(f'<ac:parameter ac:name="{key}">{value}</ac:parameter>' for key, value in parameters.items())
    body += f"<ac:rich-text-body>{rich}</ac:rich-text-body>" if rich is not None else ""
    body += f"<ac:plain-text-body><![CDATA[{plain}]]></ac:plain-text-body>" if plain is not None else ""
    return f'<ac:structured-macro ac:name="{name}" ac:macro-id="u-u-i-d">{body}</ac:structured-macro>'


def outcomes(body: str) -> dict[str, tuple[str, int]]:
    return {row["macro"]: (row["outcome"], row["count"]) for row in read(body).ledger}


def table(*rows: str) -> str:
    return "<table><tbody>" + "".join(f"<tr>{row}</tr>" for row in rows) + "</tbody></table>"
