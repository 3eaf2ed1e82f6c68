"""A Slack bot: mention it in a channel or write to it, and it answers in the thread, with quotes and links.

    SLACK_SIGNING_SECRET=… SLACK_BOT_TOKEN=xoxb-… CITELOCK_TOKEN=… uvicorn --app-dir examples slack_bot:app --port 3001

The app's Events API points to /slack/events, with the events `app_mention` and `message.im`; the bot's scopes are
`app_mentions:read`, `chat:write`, `im:history`, `users:read` and `users:read.email`. In a channel it asks with what its
own token may read, for everyone there reads the answer; in a direct message in the name of who writes.

Requests are Slack's if their signature is (https://docs.slack.dev/authentication/verifying-requests-from-slack).
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import time
from collections import OrderedDict
from typing import Any

import httpx
from bot_answers import Reply, ask
from fastapi import BackgroundTasks, FastAPI, HTTPException, Request

FRESH_S = 300
app = FastAPI(openapi_url=None)
_seen: OrderedDict[str, None] = OrderedDict()  # events: what is not answered within 3 s is sent again


def is_from_slack(body: bytes, timestamp: str, signature: str) -> bool:
    """Return whether the body was signed with our secret within the last five minutes."""
    if not timestamp.isdecimal() or abs(time.time() - int(timestamp)) > FRESH_S:
        return False
    base = b"v0:" + timestamp.encode() + b":" + body
    expected = "v0=" + hmac.new(os.environ["SLACK_SIGNING_SECRET"].encode(), base, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected.encode(), signature.encode())


@app.post("/slack/events")
async def events(request: Request, later: BackgroundTasks) -> dict[str, str]:
    """Take an event, and answer it after Slack has been told that it came."""
    body, headers = await request.body(), request.headers
    if not is_from_slack(body, headers.get("x-slack-request-timestamp", ""), headers.get("x-slack-signature", "")):
        raise HTTPException(401)
    told = json.loads(body)
    if told.get("type") == "url_verification":
        return {"challenge": told["challenge"]}
    event = told.get("event", {})
    if is_question(event) and is_new(str(told.get("event_id"))):
        later.add_task(reply, event)
    return {}


def is_question(event: dict[str, Any]) -> bool:
    """Return whether a person asks: a mention, or a plain message to the bot."""
    is_direct = event.get("type") == "message" and event.get("channel_type") == "im" and "subtype" not in event
    return (event.get("type") == "app_mention" or is_direct) and "bot_id" not in event


def is_new(event_id: str) -> bool:
    if event_id in _seen:
        return False
    _seen[event_id] = None
    if len(_seen) > 1000:
        _seen.popitem(last=False)
    return True


async def reply(event: dict[str, Any]) -> None:
    """Ask, and post the answer into the thread of the question."""
    question = re.sub(r"<@\w+>", "", event["text"]).strip()
    user = None
    if event.get("channel_type") == "im":
        profile = (await slack("users.info", {"user": event["user"]})).get("user", {}).get("profile", {})
        user = profile.get("email")
    answer = await ask(question, user)
    thread = event.get("thread_ts", event["ts"])
    message = {"channel": event["channel"], "thread_ts": thread, "text": answer.text, "blocks": blocks(answer)}
    await slack("chat.postMessage", {**message, "unfurl_links": False})


async def slack(method: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Call a method of Slack's Web API."""
    url = os.environ.get("SLACK_API", "https://slack.com/api")
    headers = {"Authorization": f"Bearer {os.environ['SLACK_BOT_TOKEN']}"}
    async with httpx.AsyncClient(timeout=30) as http:
        how = ("GET", "params") if method == "users.info" else ("POST", "json")
        response = await http.request(how[0], f"{url}/{method}", headers=headers, **{how[1]: fields})
        return dict(response.raise_for_status().json())


def blocks(answer: Reply) -> list[dict[str, Any]]:
    """Return a card: the page's words as they are, below them each quote with its link."""
    card: list[dict[str, Any]] = [{"type": "section", "text": plain(answer.text)}]
    for source in answer.sources[:10]:
        url = source.url.replace("|", "%7C").replace(">", "%3E")
        link = {"type": "mrkdwn", "text": f"[{source.number}] <{url}|{escaped(source.title)}>"}
        card.append({"type": "context", "elements": [link, plain(f"“{source.quote}”")]})
    return card


def plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text, "emoji": False}


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("|", "¦")
