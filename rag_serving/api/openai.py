"""OpenAI's API: the models (each tenant for each mode), embeddings, and a conversation's question and shown answer.
https://platform.openai.com/docs/api-reference/models and /embeddings. Clients request a title, tags or follow-up
questions behind the conversation. Such prompts are answered here, at once, from the conversation that they quote, and
cite nothing. Supported are the prompts of Open WebUI (`### Task:` … `<chat_history>`, an answer in JSON) and of
LibreChat and others (a title for the conversation, in plain text)."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from fastapi import APIRouter
from fastapi import Request as HttpRequest
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field, StringConstraints

from rag_serving.access.principals import Principal
from rag_serving.answering.markdown import linked_markdown
from rag_serving.api.bodies import MAX_SELECTION_CHARS, Name, Text
from rag_serving.api.errors import RETRY_AFTER_S
from rag_serving.api.service import Caller, CurrentService, RequireCaller, Service, caller_of, checked_text, timings_for
from rag_serving.api.wire import RequestError
from rag_serving.conversations.sessions import Exchange, Remembered
from rag_serving.conversations.turns import Conversation, conversation_of
from rag_serving.models.embedding.factory import TokenCount
from rag_serving.models.protocols import ModelError
from rag_serving.records.answers import Answer
from rag_serving.records.flags import INSTRUCTIONS_UNUSED
from rag_serving.tracing import Listen

router = APIRouter()


MODEL = "citelock"
_SELECTED_TEXT = ":selected-text"
_CREATED = 1_767_225_600  # OpenAI's clients ask for a time; no model here has one

_SHOWN = 8  # names in the message on one that does not exist

Mode = Literal["corpus", "selected_text"]


class ChosenModel(NamedTuple):
    """A caller and the requested model."""

    caller: Principal
    mode: Mode

    @property
    def model(self) -> str:
        """Return the name of the model."""
        return model_of(self.caller.tenant, self.mode)


def model_of(tenant: str, mode: Mode = "corpus") -> str:
    """Return the name of a tenant's model: of its pages, or of a text that the conversation brings."""
    return f"{MODEL}-{tenant}{_SELECTED_TEXT if mode == 'selected_text' else ''}"


@router.get("/v1/models", dependencies=[RequireCaller])
def list_models(request: HttpRequest, service: CurrentService, tenant: str | None = None) -> JSONResponse:
    """The models that the caller may ask: with a token its tenant's, on this machine all tenants'."""
    names = _names(request, service, tenant)
    return JSONResponse({"object": "list", "data": [_model(name) for name in names]})


@router.get("/v1/models/{model}", dependencies=[RequireCaller])
def show_model(model: str, request: HttpRequest, service: CurrentService) -> JSONResponse:
    names = _names(request, service, None)
    if model in names:
        return JSONResponse(_model(model))
    raise unknown_model(model, names)


def asked_of(request: HttpRequest, service: Service, tenant: str | None, model: str | None) -> ChosenModel:
    """Return the caller and the requested model; a tenant in the model's name takes precedence. Raises AuthError: the
    caller has no access, or none to the named tenant; RequestError: no such model for this caller."""
    name = model or MODEL
    mode: Mode = "selected_text" if name.endswith(_SELECTED_TEXT) else "corpus"
    named = name.removesuffix(_SELECTED_TEXT)
    if named == MODEL:
        return ChosenModel(caller_of(request, tenant), mode)
    tenants = {model_of(each): each for each in _tenants(request, service, tenant)}
    if named not in tenants:
        raise unknown_model(name, _names(request, service, tenant))
    return ChosenModel(caller_of(request, tenants[named]), mode)


def unknown_model(model: str, names: Sequence[str]) -> RequestError:
    shown = ", ".join(names[:_SHOWN]) + (" …" if len(names) > _SHOWN else "")
    return RequestError(404, "MODEL_NOT_FOUND", f"the model {model!r} does not exist; available: {shown}", "model")


def _names(request: HttpRequest, service: Service, tenant: str | None) -> list[str]:
    tenants = _tenants(request, service, tenant)
    modes: tuple[Mode, ...] = ("corpus", "selected_text")
    return [model_of(each, mode) for mode in modes for each in tenants]


def _tenants(request: HttpRequest, service: Service, tenant: str | None) -> list[str]:
    """Return the tenants open to the caller: one, unless callers here are anonymous."""
    if service.config.serving.auth == "loopback" and tenant is None:
        return sorted(service.pipelines)
    return [caller_of(request, tenant).tenant]


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": _CREATED, "owned_by": MODEL}


MAX_TEXTS, MAX_CHARS = 64, 20_000
"""Texts of a request, and characters of each; a model reads only the first of them (256 tokens by default)."""
_AT_ONCE = 4  # texts of one call to the model: questions of others come in between


Input = Annotated[Text, StringConstraints(min_length=1, max_length=MAX_CHARS)]


class EmbeddingBody(BaseModel):
    """The request; arrays of tokens are those of another model and are refused."""

    input: Input | Annotated[list[Input], Field(min_length=1, max_length=MAX_TEXTS)]
    model: Name | None = None
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None


@router.post("/v1/embeddings")
def embed(body: EmbeddingBody, caller: Caller, service: CurrentService) -> JSONResponse:
    role = service.config.serving.embeddings
    if role == "none" or role not in caller.roles:
        raise RequestError(403, "FORBIDDEN", "embeddings are not for this caller (serving.embeddings)")
    texts = [body.input] if isinstance(body.input, str) else body.input
    try:
        dimension, name = service.embedder.dimension, service.embedder.name
        known = (MODEL, service.config.embedding.model, name)
        if body.model not in (None, *known):
            raise unknown_model(body.model, known[1:])
        if body.dimensions not in (None, dimension):
            message = f"the model's vectors have {dimension} dimensions and cannot be shortened"
            raise RequestError(400, "BAD_REQUEST", message, "dimensions")
        batches = [texts[start : start + _AT_ONCE] for start in range(0, len(texts), _AT_ONCE)]
        vectors = np.concatenate([service.embedder.embed_documents(batch) for batch in batches])
    except ModelError:
        raise RequestError(503, "UNAVAILABLE", "the embedding model does not answer", retry_after=30) from None
    read = service.token_count(texts)
    shown: list[Any] = vectors.tolist()
    if body.encoding_format == "base64":
        shown = [base64.b64encode(vector.astype("<f4").tobytes()).decode() for vector in vectors]
    data = [{"object": "embedding", "index": index, "embedding": each} for index, each in enumerate(shown)]
    usage = {"prompt_tokens": read, "total_tokens": read}
    return JSONResponse({"object": "list", "model": name, "data": data, "usage": usage})


_INSTRUCTING = frozenset({"system", "developer"})


class ChatTurn(NamedTuple):
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


def dialogue_of(turns: Iterable[ChatTurn], service: Service, param: str) -> Dialogue:
    """Return the user's last message with the earlier ones. Raises RequestError: there is none, or it is empty or too
    long; `param` names the field of the messages."""
    turns = list(turns)
    said = [turn.text for turn in turns if turn.role == "user"]
    if not said:
        raise RequestError(400, "BAD_REQUEST", f"'{param}' has no message of the role 'user'", param)
    has_instructions = any(turn.role in _INSTRUCTING and turn.text.strip() for turn in turns)
    last = max(at for at, turn in enumerate(turns) if turn.role == "user")
    question = checked_text(param, said[-1], service.config)
    return Dialogue(question, tuple(said[:-1]), conversation_of(turns[:last]), has_instructions)


def answer_to(
    dialogue: Dialogue,
    asked: ChosenModel,
    service: Service,
    listen: Listen | None = None,
    session_id: str | None = None,
) -> Answer:
    """Return the answer to a conversation in the mode that its model names. Raises RequestError: the mode answers from
    a text, and the conversation brings none, or one that is too long."""
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
    """Return the source text of the mode `selected_text`: the user's messages before the question. Raises RequestError:
    there is none, or it is too long."""
    text = "\n\n".join(dialogue.earlier)
    if not text.strip():
        raise RequestError(400, "BAD_REQUEST", "this model answers from a text: send it first, then ask", "messages")
    if len(text) > MAX_SELECTION_CHARS:
        message = f"the text has {len(text)} characters, at most {MAX_SELECTION_CHARS} are read"
        raise RequestError(400, "TOO_LONG", message, "messages")
    return text


_TASK = re.compile(r"\A\s*#{1,4} ?Task:?\s", re.IGNORECASE)
_HISTORY = ("<chat_history>", "Chat History:")  # the text before the conversation
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
    """Return the reply to a client's own prompt, or None if the text is somebody's question."""
    text = text[:_LONGEST]
    if _TASK.match(text):
        keys = _JSON_KEY.findall(text)
        reply = _title(text) if keys[:1] == ["title"] else _REPLIES[keys[0]] if keys else None
        return json.dumps({keys[0]: reply}, ensure_ascii=False) if keys else None
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


_REPLIES: dict[str, object] = {
    "tags": ["Documentation"],
    "follow_ups": [],
    "queries": [],
    "text": "",
    "prompt": "",
    "emoji": "📄",
}


class TokenCounts(NamedTuple):
    """Tokens that were read and written."""

    read: int = 0
    written: int = 0

    def chat(self) -> dict[str, int]:
        """Return the shape of chat completions."""
        return {"prompt_tokens": self.read, "completion_tokens": self.written, "total_tokens": self.read + self.written}


@dataclass(frozen=True)
class ShownReply:
    """A text with its citations."""

    text: str
    citations: tuple[dict[str, Any], ...] = ()  # of type url_citation: offsets of the marker, address, title
    answer: Answer | None = None  # None: a client's own prompt was answered

    @classmethod
    def of(cls, answer: Answer) -> ShownReply:
        """Return an answer as a reply."""
        linked = linked_markdown(answer)
        citations = tuple(
            {
                "start_index": marker.start,
                "end_index": marker.end,
                "url": marker.citation.fragment_url,
                "title": marker.citation.title,
            }
            for marker in linked.markers
            if marker.citation.fragment_url.startswith(("https://", "http://"))
        )
        return cls(linked.text, citations, answer)

    @property
    def refusal(self) -> RequestError | None:
        """The error of an answer that is not available now."""
        if self.answer is None or self.answer.status != "unavailable":
            return None
        return RequestError(503, "UNAVAILABLE", self.answer.answer, retry_after=RETRY_AFTER_S)

    @property
    def structured(self) -> dict[str, Any]:
        """The whole answer, in a field of its own that other clients ignore."""
        return {"citelock": self.answer.payload()} if self.answer else {}


@dataclass
class Counter:
    """Counts the tokens of one exchange, unless nobody is told."""

    read: Sequence[str]
    tokens: TokenCount
    is_told: bool = True
    usage: TokenCounts = field(default_factory=TokenCounts)

    def count(self, reply: ShownReply) -> None:
        """Take the tokens of the model behind the answer, by its server; else those of request and response."""
        if reply.answer and (used := reply.answer.usage):
            self.usage = TokenCounts(used.prompt_tokens, used.completion_tokens)
        elif self.is_told:
            self.usage = TokenCounts(self.tokens(self.read), self.tokens([reply.text]))
