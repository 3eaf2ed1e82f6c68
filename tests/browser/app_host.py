"""A host of MCP Apps (SEP-1865), as a chat in the browser is one: it shows the card in a sandboxed frame.

Belongs here: the host's side of the protocol. Does not belong here: the card (`mcp.card`).
"""

from __future__ import annotations

import json
from typing import Any

from playwright.sync_api import Frame, Page

ADDRESS = "http://host.test/"
# What the specification asks of hosts where a card names no address.
POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "media-src 'self' data:; connect-src 'none'; frame-src 'none'"
)
HOST = """<!doctype html><meta charset=utf-8>
<style>:root{color-scheme:light dark}body{margin:0;padding:24px;background:light-dark(#f0f1f4,#131417)}
iframe{display:block;width:100%;border:0;height:120px}</style>
<iframe id=view sandbox="allow-scripts allow-popups"></iframe>
<script>
window.heard = [];
window.begin = (html, context, capabilities, input, result) => {
  const frame = document.getElementById('view');
  const send = (message) => frame.contentWindow.postMessage({jsonrpc: '2.0', ...message}, '*');
  window.send = send;
  addEventListener('message', (event) => {
    if (event.source !== frame.contentWindow) return;
    const message = event.data;
    window.heard.push(message);
    if (message.method === 'ui/initialize')
      send({id: message.id, result: {protocolVersion: '2026-01-26', hostInfo: {name: 'test', version: '1'},
        hostCapabilities: capabilities, hostContext: context}});
    if (message.method === 'ui/notifications/initialized') {
      send({method: 'ui/notifications/tool-input', params: {arguments: input}});
      if (result) send({method: 'ui/notifications/tool-result', params: result});
    }
    if (message.method === 'ui/notifications/size-changed') frame.style.height = message.params.height + 'px';
    if (message.method === 'tools/call' && window.proof)
      send({id: message.id, result: {structuredContent: window.proof}});
  });
  frame.srcdoc = html;
};
</script>"""


def shown(page: Page, html: str, result: dict[str, Any] | None, theme: str = "light", **capabilities: Any) -> Frame:
    """Show a card with the result of a tool. Return its frame."""
    page.route(
        ADDRESS,
        lambda route: route.fulfill(
            body=HOST,
            content_type="text/html",
            headers={"Content-Security-Policy": POLICY.replace("frame-src 'none'", "frame-src 'self'")},
        ),
    )
    page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
    page.goto(ADDRESS)
    given = [html, {"theme": theme}, capabilities, {"question": "asked"}, result]
    page.evaluate("([a, b, c, d, e]) => window.begin(a, b, c, d, e)", given)
    frame = page.frames[-1]
    frame.wait_for_selector("header, .waiting")
    if result:
        frame.wait_for_selector("header")
    page.wait_for_function("window.heard.some((message) => message.method === 'ui/notifications/size-changed')")
    return frame


def heard(page: Page, method: str) -> list[dict[str, Any]]:
    """Return what the card sent with this method, once anything of it has come from its process."""
    page.wait_for_function("method => window.heard.some(message => message.method === method)", arg=method)
    return [
        message["params"]
        for message in json.loads(page.evaluate("JSON.stringify(window.heard)"))
        if message.get("method") == method
    ]
