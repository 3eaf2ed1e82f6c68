"""A conversation in OpenAI's format as what Citelock can be asked: a question, and the ones before it.

Belongs here: which message is the question, what the others are used for, asking. Does not belong here: the shapes of
requests and answers (`completions`, `responses`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from rag_serving.api.bodies import MAX_SELECTION_CHARS
from rag_serving.api.openai.models import Asked
from rag_serving.api.service import Service, checked_text, timings_for
from rag_serving.api.wire import RequestError
from rag_serving.conversations.sessions import Exchange, Remembered
from rag_serving.conversations.turns import Conversation, conversation_of
from rag_serving.records.answers import Answer
from rag_serving.records.flags import INSTRUCTIONS_UNUSED
from rag_serving.tracing import Listen

_INSTRUCTING = frozenset({"system", "developer"})


class Turn(NamedTuple):
    """A message of a conversation."""

    role: str
    text: str


@dataclass(frozen=True)
class Dialogue:
    """A question with what was said before."""

    question: str
    earlier: tuple[str, ...]  # what the asker said before, oldest first
    conversation: Conversation  # the same with what the client says was answered
    has_instructions: bool  # a system prompt: how to answer is not for clients to say


def dialogue_of(turns: Iterable[Turn], service: Service, param: str) -> Dialogue:
    """Return what the last message of the user asks, with the messages of the user before it.

    Raises:
        RequestError: there is no such message, or it is empty or too long; `param` names where messages come from.
    """
    turns = list(turns)
    said = [turn.text for turn in turns if turn.role == "user"]
    if not said:
        raise RequestError(400, "BAD_REQUEST", f"'{param}' has no message of the role 'user'", param)
    has_instructions = any(turn.role in _INSTRUCTING and turn.text.strip() for turn in turns)
    last = max(at for at, turn in enumerate(turns) if turn.role == "user")
    question = checked_text(param, said[-1], service.config)
    return Dialogue(question, tuple(said[:-1]), conversation_of(turns[:last]), has_instructions)


def answer_to(
    dialogue: Dialogue, asked: Asked, service: Service, listen: Listen | None = None, session_id: str | None = None
) -> Answer:
    """Return the answer to a conversation in the mode that its model names.

    Raises:
        RequestError: the mode answers from a text, and the conversation brings none, or one that is too long.
    """
    pipeline = service.pipelines[asked.caller.tenant]
    remembered = Remembered(pipeline.sessions, asked.caller, session_id)
    said, selection = remembered.conversation(dialogue.conversation), None
    if asked.mode == "selected_text":
        selection = selection_of(dialogue)
        answer = pipeline.ask_selection(dialogue.question, selection, False, listen, asked.caller)
    else:
        answer = pipeline.ask(asked.caller, dialogue.question, listen=listen, conversation=said)
    answer = remembered.kept(Exchange(dialogue.question, answer, context=selection, mode=asked.mode))
    if dialogue.has_instructions:
        answer = replace(answer, flags=(*answer.flags, INSTRUCTIONS_UNUSED))
    return replace(answer, timings_ms=timings_for(asked.caller, answer.timings_ms))


def selection_of(dialogue: Dialogue) -> str:
    """Return the text that the mode `selected_text` answers from: what the user sent before the question.

    Raises:
        RequestError: there is none, or it is too long.
    """
    text = "\n\n".join(dialogue.earlier)
    if not text.strip():
        raise RequestError(400, "BAD_REQUEST", "this model answers from a text: send it first, then ask", "messages")
    if len(text) > MAX_SELECTION_CHARS:
        message = f"the text has {len(text)} characters, at most {MAX_SELECTION_CHARS} are read"
        raise RequestError(400, "TOO_LONG", message, "messages")
    return text
