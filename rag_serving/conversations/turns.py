"""A question as its caller sends it, and the conversation so far, with answers according to the client."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rag_serving.access.principals import Principal
from rag_serving.records.answers import Answer
from rag_serving.records.queries import PLAIN, Filters, Occasion

MOST_TURNS = 5
"""Turns that are looked at, the last ones."""
_QUESTION_CHARS = 2_000
_ANSWER_CHARS = 4_000  # that are looked at of what a client says was answered


@dataclass(frozen=True)
class QuestionRequest:
    """A caller's question, and the caller."""

    principal: Principal
    text: str  # the question as it is searched, completed from the conversation before it
    filters: Filters | None = None
    explain: bool = False
    original: str | None = None  # as it was typed, if different
    page: str | None = None  # the title of a page that the conversation is about, whose passages are preferred
    occasion: Occasion = PLAIN  # the mode and circumstances

    @property
    def understood(self) -> str | None:
        """Return the question as it was completed; None if it is the one that was typed."""
        return self.text if self.original is not None else None


@dataclass(frozen=True)
class ConversationTurn:
    """A question and what a client says that it was answered."""

    question: str  # as it was typed
    answer: str = ""  # nobody vouches for it: it chooses among what the question finds again, and is never shown
    filters: Filters | None = None  # what the caller narrowed the question to
    may_offer: bool = True  # whether it may have been answered with options to choose from


@dataclass(frozen=True)
class Conversation:
    """The turns before a question, oldest first."""

    turns: tuple[ConversationTurn, ...] = ()

    @property
    def last_turns(self) -> tuple[ConversationTurn, ...]:
        """The turns that are looked at."""
        return self.turns[-MOST_TURNS:]


def conversation_of(messages: Iterable[tuple[str, str]]) -> Conversation:
    """Return a conversation from messages (role, text), oldest first; roles but `user` and `assistant` are left out.
    The assistant's text before the first question belongs to none."""
    turns: list[ConversationTurn] = []
    for role, text in messages:
        if role == "user" and text.strip():
            turns.append(ConversationTurn(text.strip()[:_QUESTION_CHARS]))
        elif role == "assistant" and turns and text.strip():
            answer = f"{turns[-1].answer}\n{text}".strip()[:_ANSWER_CHARS]
            turns[-1] = ConversationTurn(turns[-1].question, answer)
    return Conversation(tuple(turns))


def turn_of(question: str, answer: Answer, filters: Filters | None = None) -> ConversationTurn:
    """Return the turn that a question and its answer are, as its asker saw it: with options and sources."""
    told = answer.clarification
    options = [told.text, *(option.label for option in told.options)] if told else []
    sources = [f"{citation.title} {citation.url}" for citation in answer.citations]
    text = "\n".join((answer.answer, *options, *dict.fromkeys(sources)))
    return ConversationTurn(question[:_QUESTION_CHARS], text[:_ANSWER_CHARS], filters, bool(told and told.options))
