"""The card of an answer inside a chat: an MCP App (SEP-1865), one HTML document that loads nothing.

Belongs here: the document and what a host is told of it. Does not belong here: its looks and its script
(`templates/`), the answer it shows (`mcp.asking`).

Its own policy lets run what stands in it, by digest, and nothing else: a host may allow any inline script.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files

from markupsafe import Markup
from mcp.server.apps import Apps, ResourceCsp

from rag_serving.escaping.templates import html_template

URI = "ui://citelock/answer-card.html"
_NAME = "answer_card"


def add_card(apps: Apps) -> None:
    """Offer the card to hosts that show apps; it reaches no address."""
    nothing = ResourceCsp(connect_domains=[], resource_domains=[], frame_domains=[], base_uri_domains=[])
    apps.add_html_resource(
        URI,
        card_html(),
        name="answer-card",
        title="Answer with citations",
        description="Shows an answer of `ask` with its quotes, how each was verified, and links to the pages.",
        csp=nothing,
        prefers_border=False,
    )


@cache
def card_html() -> str:
    """Return the document."""
    style, script = (_part(f"{_NAME}.{suffix}") for suffix in ("css", "js"))
    digests = {"style_digest": _digest(style), "script_digest": _digest(script)}
    return html_template(__package__, f"{_NAME}.html.j2").render(style=Markup(style), script=Markup(script), **digests)


def _part(name: str) -> str:
    return (files(__package__) / "templates" / name).read_text("utf-8")


def _digest(text: str) -> str:
    """Return the source of a policy that allows this text alone (CSP level 3, 2.3.1)."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
