"""A bot for Microsoft Teams: mention it or write to it, and it answers with a card of quotes and links.

    TEAMS_APP_ID=… TEAMS_APP_PASSWORD=… CITELOCK_TOKEN=… uvicorn --app-dir examples teams_bot:app --port 3978

The bot's messaging endpoint is /api/messages. In a channel or group it asks with what its own token may read, for
everyone there reads the answer; in a personal chat in the name of who writes.

Requests are the Bot Connector's if their token is: its issuer, our id, a key that is endorsed for the channel, and the
address that is answered (https://learn.microsoft.com/azure/bot-service/rest-api/bot-framework-rest-connector-authentication).
"""

from __future__ import annotations

import html
import os
import re
import time
from typing import Any
from urllib.parse import quote

import httpx
import jwt
from bot_answers import Reply, ask
from fastapi import BackgroundTasks, FastAPI, HTTPException, Request

ISSUER = "https://api.botframework.com"
OPENID = "https://login.botframework.com/v1/.well-known/openidconfiguration"
TOKENS = "https://login.microsoftonline.com/botframework.com/oauth2/v2.0/token"
KEYS_FOR_S, LEEWAY_S = 86_400, 300
app = FastAPI(openapi_url=None)
_kept: dict[str, tuple[float, Any]] = {}  # keys and our own token, until when


@app.post("/api/messages")
async def messages(request: Request, later: BackgroundTasks) -> dict[str, str]:
    """Take an activity, and answer a message after its sender has been told that it came."""
    activity = await request.json()
    if not await is_from_connector(request.headers.get("authorization", ""), activity):
        raise HTTPException(403)
    if activity.get("type") == "message" and activity.get("text"):
        later.add_task(reply, activity)
    return {}


async def is_from_connector(authorization: str, activity: dict[str, Any]) -> bool:
    """Return whether the token is the Connector's, for us, for this channel and this address."""
    token = authorization.removeprefix("Bearer ")
    try:
        name = jwt.get_unverified_header(token).get("kid")
        key = next(each for each in await signing_keys() if each["kid"] == name)
        claims = jwt.decode(
            token, jwt.PyJWK(key, "RS256").key, ["RS256"], audience=os.environ["TEAMS_APP_ID"], issuer=ISSUER,
            leeway=LEEWAY_S, options={"require": ["exp", "iss", "aud"]},
        )  # fmt: skip
    except (jwt.PyJWTError, StopIteration):
        return False
    address = claims.get("serviceurl", claims.get("serviceUrl"))
    return address == activity.get("serviceUrl") and activity.get("channelId") in key.get("endorsements", ())


async def signing_keys() -> list[dict[str, Any]]:
    async def fetch(http: httpx.AsyncClient) -> tuple[float, Any]:
        told = (await http.get(os.environ.get("TEAMS_OPENID", OPENID))).raise_for_status().json()
        return KEYS_FOR_S, (await http.get(told["jwks_uri"])).raise_for_status().json()["keys"]

    return list(await kept("keys", fetch))


async def own_token() -> str:
    async def fetch(http: httpx.AsyncClient) -> tuple[float, Any]:
        form = {
            "grant_type": "client_credentials", "scope": f"{ISSUER}/.default",
            "client_id": os.environ["TEAMS_APP_ID"], "client_secret": os.environ["TEAMS_APP_PASSWORD"],
        }  # fmt: skip
        response = await http.post(os.environ.get("TEAMS_TOKENS", TOKENS), data=form)
        told = response.raise_for_status().json()
        return told["expires_in"] - LEEWAY_S, told["access_token"]

    return str(await kept("token", fetch))


async def kept(name: str, fetch: Any) -> Any:
    """Return what was fetched, until it expires."""
    if name not in _kept or _kept[name][0] < time.monotonic():
        async with httpx.AsyncClient(timeout=30) as http:
            seconds, value = await fetch(http)
        _kept[name] = time.monotonic() + seconds, value
    return _kept[name][1]


async def reply(activity: dict[str, Any]) -> None:
    """Ask, and post the card as a reply to the message."""
    question = html.unescape(re.sub(r"<at>.*?</at>|<[^>]+>", " ", activity["text"])).strip()
    conversation = f"{activity['serviceUrl'].rstrip('/')}/v3/conversations/{quote(activity['conversation']['id'], '')}"
    headers = {"Authorization": f"Bearer {await own_token()}"}
    async with httpx.AsyncClient(timeout=60, headers=headers) as http:
        user = None
        if activity["conversation"].get("conversationType") == "personal":
            member = await http.get(f"{conversation}/members/{quote(activity['from']['id'], '')}")
            user = member.raise_for_status().json().get("userPrincipalName")
        card = adaptive(await ask(question, user))
        answer = {"type": "message", "replyToId": activity["id"], "attachments": [card]}
        (await http.post(f"{conversation}/activities/{quote(activity['id'], '')}", json=answer)).raise_for_status()


def adaptive(answer: Reply) -> dict[str, Any]:
    """Return a card: the page's words as runs, which are no Markdown; below them quotes, and buttons with links."""
    quotes = [rich(f"[{each.number}] “{each.quote}”", isSubtle=True) for each in answer.sources]
    links = [
        {"type": "Action.OpenUrl", "title": f"[{each.number}] {each.title}", "url": each.url} for each in answer.sources
    ]
    head = {"type": "AdaptiveCard", "$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "version": "1.4"}
    content = {**head, "body": [rich(answer.text), *quotes], "actions": links[:6]}
    return {"contentType": "application/vnd.microsoft.card.adaptive", "content": content}


def rich(text: str, **style: Any) -> dict[str, Any]:
    return {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": text, **style}]}
