"""Asking Citelock for a bot: the answer as plain text, and its citations as they are shown in a card."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import httpx

LONGEST = 2_800  # characters of an answer: Slack takes 3,000 in a block


@dataclass(frozen=True)
class Source:
    """A citation: the words, checked, and the link that opens the page at them."""

    number: int
    title: str
    quote: str
    url: str


@dataclass(frozen=True)
class Reply:
    text: str
    sources: tuple[Source, ...]
    receipt: str


async def ask(question: str, user: str | None = None) -> Reply:
    """Ask with CITELOCK_TOKEN, in the name of `user` where the token may (`user_header`: X-Citelock-User).

    Without a user the token's own rights are asked with: give it what everyone in the bot's channels may read.
    """
    headers = {"X-Citelock-User": user} if user else {}
    if token := os.environ.get("CITELOCK_TOKEN"):
        headers["Authorization"] = f"Bearer {token}"
    try:
        async with httpx.AsyncClient(timeout=60) as http:
            url = os.environ.get("CITELOCK_URL", "http://127.0.0.1:8088")
            response = await http.post(f"{url}/v1/ask", json={"question": question}, headers=headers)
            response.raise_for_status()
    except httpx.HTTPError:
        return Reply("Citelock cannot be asked at the moment. Try again shortly.", (), "")
    return _reply(response.json())


def _reply(answer: dict[str, Any]) -> Reply:
    text = answer["answer"]
    if answer["outcome"] == "none" and answer["clarification"]:
        text = f"{text}\n\n{answer['clarification']['text']}"
    sources = tuple(
        Source(each["index"], " → ".join(each["heading_path"]) or each["title"], each["quote"], each["fragment_url"])
        for each in answer["citations"]
        if each["fragment_url"].startswith(("https://", "http://"))
    )
    return Reply(text if len(text) <= LONGEST else text[:LONGEST] + " …", sources, answer["receipt_id"])
