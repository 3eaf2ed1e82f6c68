"""A documentation site of another origin that embeds the page's snippet, and one that means harm.

Belongs here: the two sites and serving them. Does not belong here: what the page makes of them.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

TEXT = "The yard crane lifts 40 tonnes while the wind stays below 18 metres per second. Above that it stops by itself."

_DOCS = """<!doctype html><html lang=en dir={direction}><title>{title}</title><body><h1>Cranes</h1>
<p id=text>{text}</p><p><input id=field value="a text that is typed"></p>
<script src="{address}/embed.js" defer data-label="Ask about these words"></script>"""
_HOSTILE = """<!doctype html><html lang=en><title>x</title><body><button>open</button><script>
const messages = {messages};
document.querySelector('button').onclick = () => {{
  const page = open('{address}/ask');
  addEventListener('message', () => {{
    for (const message of messages) page.postMessage(message, '*');
    window.sent = true;
  }});
}};
</script>"""

URL = "http://localhost/"
JUNK: tuple[Any, ...] = (
    None,
    7,
    "text",
    [],
    {},
    {"type": "citelock:selection"},
    {"type": "citelock:selection", "text": 5, "title": "t", "url": URL},
    {"type": "citelock:selection", "text": " ", "title": "t", "url": URL},
    {"type": "citelock:selection", "text": "y" * 50_001, "title": "t", "url": URL},
    {"type": "citelock:selection", "text": "t", "title": {}, "url": URL},
    {"type": "citelock:selection", "text": "t", "title": "t" * 301, "url": URL},
    {"type": "citelock:selection", "text": "t", "title": "t", "url": "javascript:alert(1)"},
    {"type": "citelock:selection", "text": "t", "title": "A bank", "url": "https://bank.example/"},
    {"type": "citelock:question", "text": "t", "title": "t", "url": URL},
)
"""What the page takes nothing of."""


def docs_site(address: str, title: str = "Cranes", direction: str = "ltr") -> Callable[..., Awaitable[None]]:
    """Return an ASGI app: a page with a text and the snippet of the server at `address`."""
    return _serving(_DOCS.format(address=address, title=title, text=TEXT, direction=direction))


def hostile_site(address: str) -> Callable[..., Awaitable[None]]:
    """Return an ASGI app: a page that opens ours and sends it junk."""
    return _serving(_HOSTILE.format(address=address, messages=json.dumps(JUNK)))


def _serving(body: str) -> Callable[..., Awaitable[None]]:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            while True:
                message = await receive()
                await send({"type": f"{message['type']}.complete"})
                if message["type"] == "lifespan.shutdown":
                    return
        headers = [(b"content-type", b"text/html; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body.encode()})

    return app
