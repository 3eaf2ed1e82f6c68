"""Where people find in a browser what assets tell of: the page that asks, reports.

Belongs here: addresses of the serving API. Does not belong here: its routes (`rag_serving.api`), report files
(`rag_serving.indexes.reports`).
"""

from __future__ import annotations

from rag_serving.config.serving import Serving
from rag_serving.indexes.reports import route_of


def page_url(serving: Serving) -> str:
    """Return the address of the page that asks: `serving.public_url`, else as this machine's browser finds it."""
    if serving.public_url:
        return f"{serving.public_url.rstrip('/')}/"
    host = "127.0.0.1" if serving.host in ("0.0.0.0", "::") else serving.host
    return f"http://{f'[{host}]' if ':' in host else host}:{serving.port}/"


def report_url(serving: Serving, tenant: str, name: str) -> str:
    """Return where an operator opens a report."""
    return page_url(serving).rstrip("/") + route_of(name, tenant)
