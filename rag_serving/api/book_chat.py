"""`POST /chat`: questions to a book as a whole, or to a text that is selected in it.

Belongs here: the request and the response of book clients, the shape of `sources`. Does not belong here: how a book is
read (`pipeline.book`), questions to all pages (`api.app`).
"""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import Field

from rag_serving.api.bodies import MAX_SELECTION_CHARS, Body, Shown, Text
from rag_serving.api.errors import RETRY_AFTER_S
from rag_serving.api.service import Caller, CurrentService, checked_text
from rag_serving.api.wire import RequestError
from rag_serving.ask import Pipeline
from rag_serving.pipeline.book import NOT_VERIFIED, book_sources
from rag_serving.records.answers import Answer, Citation
from rag_serving.records.flags import flags_told
from rag_serving.records.occasion import Occasion

BookMode = Literal["book-wide", "selected-text"]

router = APIRouter()


class ChatBody(Body):
    """POST /chat."""

    query: Text = Field(min_length=1)
    mode: BookMode = "book-wide"
    context: Text | None = Field(None, max_length=MAX_SELECTION_CHARS)


@router.post("/chat")
def chat(body: ChatBody, caller: Caller, service: CurrentService) -> JSONResponse:
    """Answer from the tenant's books, or from the selected text alone."""
    pipeline = service.pipelines[caller.tenant]
    question = checked_text("query", body.query, service.config)
    selected = selection_of(body.mode, body.context)
    if selected is None:
        check_books(pipeline)
        answer = pipeline.ask(caller, question, occasion=Occasion("book-wide"))
    else:
        answer = pipeline.ask_selection(question, selected, principal=caller)
    if answer.status == "unavailable":
        raise RequestError(503, "RETRIEVAL_UNAVAILABLE", answer.answer, retry_after=RETRY_AFTER_S)
    return JSONResponse({"mode": body.mode, **chat_payload(answer)})


def selection_of(mode: str, context: str | Shown | None) -> str | None:
    """Return the selected text; None where pages are asked.

    Raises:
        RequestError: the mode needs a text that is not there, or there is one that it does not read.
    """
    if mode in ("selected-text", "selected_text"):
        if not isinstance(context, str) or not context.strip():
            raise RequestError(400, "BAD_REQUEST", f"mode {mode!r} needs the selected text in 'context'", "context")
        return context
    if isinstance(context, str):
        name = "selected-text" if mode == "book-wide" else "selected_text"
        told = f"'context' is only read in mode {name!r}"
        raise RequestError(400, "BAD_REQUEST", told, "context")
    return None


def check_books(pipeline: Pipeline) -> None:
    """Do nothing where the tenant has a book.

    Raises:
        RequestError: it has none.
    """
    if not book_sources(pipeline.config, pipeline.tenant):
        told = "no source of this tenant is a book; give one `profile: book`, or ask without mode 'book-wide'"
        raise RequestError(400, "BAD_REQUEST", told, "mode")


def chat_payload(answer: Answer) -> dict[str, Any]:
    """Return the JSON shape of an answer for book clients: what is not told with confidence is refused."""
    is_told = answer.outcome == "told"
    is_withheld = not is_told and answer.status in ("answered", "not_found", "needs_more_context")
    clarification = answer.clarification.payload() if answer.clarification and answer.status == "clarify" else None
    return {
        "answer": NOT_VERIFIED if is_withheld else answer.answer,
        "sources": [source_payload(citation) for citation in answer.citations] if is_told else [],
        "refused": not is_told and answer.status != "clarify",
        "confidence": answer.gates.get("confidence"),
        "clarification": clarification,
        "warnings": [] if is_withheld else [told["text"] for told in flags_told(answer.flags)],
        "receipt_id": answer.receipt_id,
    }


def source_payload(citation: Citation) -> dict[str, Any]:
    """Return the JSON shape of a source: where a quote stands in its book, and the quote.

    Outside of books the passage's own id, title and heading stand for the place; of a selected text its offsets do.
    """
    if citation.book:
        place = citation.book.payload()
        named = {name: place[name] for name in ("passage_id", "chapter", "section", "page")}
    elif citation.page_id == "selection":
        named = {"passage_id": f"selection:{citation.start}-{citation.end}", "chapter": None, "section": None}
    else:
        section = citation.heading_path[-1] if len(citation.heading_path) > 1 else None
        title = citation.heading_path[0] if citation.heading_path else citation.title
        named = {"passage_id": citation.chunk_id, "chapter": title, "section": section}
    return {"index": citation.index, "page": citation.page, **named, "snippet": citation.quote, "url": citation.url}
