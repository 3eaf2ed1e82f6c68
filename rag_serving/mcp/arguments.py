"""The arguments of tools: texts with bounds, filters, turns of a conversation.

Belongs here: types of arguments with their descriptions for models. Does not belong here: results (`mcp.results`),
bodies of HTTP (`api.bodies`).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from rag_serving.query.filters import parse_filters
from rag_serving.records.queries import Filters
from rag_serving.text.characters import fault_of

MAX_TEXT_CHARS = 100_000
"""Of any text; a question is bounded by `Serving.max_question_chars` besides."""
MAX_ID_CHARS = 500
MAX_VALUES = 100
MAX_TURNS = 100


def _plain(text: str) -> str:
    if fault := fault_of(text):
        raise PydanticCustomError("text", fault)
    return text


_Text = Annotated[str, Field(max_length=MAX_TEXT_CHARS), AfterValidator(_plain)]
_Name = Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARS), AfterValidator(_plain)]
_Names = Annotated[list[_Name], Field(max_length=MAX_VALUES)]

QuestionText = Annotated[_Text, Field(min_length=1, description="The question, as a person would ask it.")]
CheckedText = Annotated[_Text, Field(min_length=1, description="The text to check: plain or Markdown.")]
QueryText = Annotated[_Text, Field(min_length=1, description="Words to search for; 'space:OPS' and 'label:x' narrow.")]
AsOf = Annotated[
    str,
    Field(max_length=MAX_ID_CHARS, description="Ask a kept generation: its id, or a date."),
    AfterValidator(_plain),
]
DocumentId = Annotated[_Name, Field(description="An id of search results, or the id of a passage.")]
PassageId = Annotated[_Name, Field(description="A chunk_id or passage_id of a citation or of search results.")]
ReceiptId = Annotated[_Name, Field(description="The receipt_id of an answer.")]

Limit = Annotated[int, Field(ge=1, le=30, description="Passages to return at most.")]


class Turn(BaseModel):
    """An earlier message of the conversation."""

    role: Literal["user", "assistant"]
    content: _Text


History = Annotated[
    list[Turn], Field(max_length=MAX_TURNS, description="Earlier turns of the conversation, oldest first.")
]


class FilterArguments(BaseModel):
    """What narrows a question: only passages of one of the spaces, with all labels, and with these words in the
    title."""

    model_config = ConfigDict(extra="forbid")

    space: _Names = Field([], description="Keys of spaces, as list_sources names them.")
    labels: _Names = Field([], description="Labels, all of which a page must have.")
    source: _Names = Field([], description="Keys of sources.")
    kind: _Names = Field([], description="Kinds of page: page, comments, attachment, document.")
    category: _Names = Field([], description="Categories of documents.")
    title: _Name | None = Field(None, description="Words of the page's title.")

    def parsed(self) -> Filters | None:
        """Return the filters; None if nothing is narrowed."""
        given: dict[str, Any] = self.model_dump(exclude_defaults=True, exclude_none=True)
        return parse_filters(given)
