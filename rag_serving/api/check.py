"""`POST /v1/check`: a text, or an answer that another program gave, against the pages.

Belongs here: the route and its body. Does not belong here: checking (`checking.check`).
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import AfterValidator, BaseModel, Field, model_validator

from rag_serving.api.bodies import MAX_VALUES, Body, Filters, plain
from rag_serving.api.service import Caller, CurrentService
from rag_serving.query.filters import parse_filters

router = APIRouter()

MAX_CHECKED_CHARS = 1_000_000
"""The whole body is bounded besides (`app.MAX_BODY_BYTES`), and the time that it may take."""
MAX_QUOTE_CHARS = 2_000
CheckedText = Annotated[str, Field(min_length=1, max_length=MAX_CHECKED_CHARS), AfterValidator(plain)]


class CitedQuote(BaseModel):
    """A citation of an answer, of which the quote alone is read."""

    quote: Annotated[str, Field(min_length=1, max_length=MAX_QUOTE_CHARS), AfterValidator(plain)]


class CheckBody(Body):
    """POST /v1/check: one of both texts. What an answer cites is looked for again, and not believed."""

    text: CheckedText | None = None
    answer: CheckedText | None = None
    citations: Annotated[list[CitedQuote], Field(max_length=MAX_VALUES)] = Field(default_factory=list)
    filters: Filters | None = None

    @model_validator(mode="after")
    def _has_one(self) -> CheckBody:
        if (self.text is None) == (self.answer is None):
            raise ValueError("one of 'text' and 'answer' is needed")
        return self


@router.post("/v1/check")
def check(body: CheckBody, caller: Caller, service: CurrentService) -> JSONResponse:
    """Return for each claim whether it is on a page word for word, or a page says otherwise; for each citation whether
    a page has its quote."""
    pipeline, quotes = service.pipelines[caller.tenant], [citation.quote for citation in body.citations]
    checked = pipeline.check(caller, body.text or body.answer or "", parse_filters(body.filters), quotes=quotes)
    return JSONResponse(checked.payload())
