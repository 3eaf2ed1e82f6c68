"""Prompts that chat clients send on their own, behind the conversation: for a title, tags, questions to go on with.

They ask nothing of the pages: they are answered here, at once, from the conversation that they quote, and cite nothing.

Belongs here: telling such prompts from questions, what each gets. Does not belong here: shapes of OpenAI's API.
Known are the prompts of Open WebUI (`### Task:` … `<chat_history>`, an answer in JSON) and of LibreChat and others (a
title for the conversation, in plain text).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

_TASK = re.compile(r"\A\s*#{1,4} ?Task:?\s", re.IGNORECASE)
_HISTORY = ("<chat_history>", "Chat History:")  # what stands before the conversation
_SAID = re.compile(r"^[ \t]{0,8}(?:USER|User|Human|user):[ \t]{0,8}(\S.*)$", re.MULTILINE)
_TITLE = re.compile(
    r"\b(?:concise|short|brief|5[- ]words?[- ]or[- ]less|(?:3|4|5|6)-(?:5|6|7|8) words?)\b[^\n]{0,120}\btitle\b"
    r"|\btitle\b[^\n]{0,120}\b(?:concise|short|brief|\d words? or (?:less|fewer)"
    r"|max(?:imum)? \d+ (?:words?|characters))\b",
    re.IGNORECASE,
)
_CONVERSATION = re.compile(r"\b(?:conversation|chat|dialogue|exchange)\b", re.IGNORECASE)
_ONLY = re.compile(
    r"\b(?:only|just|nothing else|no (?:punctuation|quot\w+|other text|additional text))\b", re.IGNORECASE
)
_JSON_KEY = re.compile(r"\{\s*\"(title|tags|follow_ups|queries|text|prompt|emoji)\"")
_TITLE_WORDS, _TITLE_CHARS = 6, 60
_LONGEST = 20_000  # characters that are looked at


def task_reply(text: str) -> str | None:
    """Return what a client's own prompt gets, or None where the text is somebody's question."""
    text = text[:_LONGEST]
    if _TASK.match(text):
        keys = _JSON_KEY.findall(text)
        return json.dumps(_REPLIES[keys[0]](text), ensure_ascii=False) if keys else None
    head = text[:1000]
    if _TITLE.search(head) and _CONVERSATION.search(head) and _ONLY.search(head):
        return _title(text)
    return None


def _title(text: str) -> str:
    """Return the first words that somebody said in the conversation that the prompt quotes."""
    start = next((place for sign in _HISTORY if (place := text.find(sign)) >= 0), 0)
    said = _SAID.search(text, start)
    words = " ".join((said[1] if said else "").split()[:_TITLE_WORDS])[:_TITLE_CHARS].rstrip(" ?!.,;:")
    return words or "Conversation"


_REPLIES: dict[str, Callable[[str], dict[str, object]]] = {
    "title": lambda text: {"title": _title(text)},
    "tags": lambda _: {"tags": ["Documentation"]},
    "follow_ups": lambda _: {"follow_ups": []},
    "queries": lambda _: {"queries": []},
    "text": lambda _: {"text": ""},
    "prompt": lambda _: {"prompt": ""},
    "emoji": lambda _: {"emoji": "📄"},
}
