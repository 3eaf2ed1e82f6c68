"""The types of request bodies: texts and lists with bounds."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from rag_serving.records.queries import Occasion, QuestionMode
from rag_serving.text.normalization import fault_of

MAX_TEXT_CHARS = 200_000
"""Of any text: a question is bounded by `Serving.max_question_chars` besides."""
MAX_NAME_CHARS = 500
MAX_SELECTION_CHARS = 50_000
MAX_FILTER_VALUES = 100
MAX_APPLICATION_CHARS = 20_000
MAX_WIDGET_CHARS = 2000
MAX_VALUES = 100
MAX_MESSAGES = 1000
MAX_PARTS = 100


def plain(text: str) -> str:
    """Return a text that databases and encodings take. Raises PydanticCustomError: it has NUL or lone surrogates."""
    if fault := fault_of(text):
        raise PydanticCustomError("text", fault)
    return text


Text = Annotated[str, Field(max_length=MAX_TEXT_CHARS), AfterValidator(plain)]
Name = Annotated[str, Field(max_length=MAX_NAME_CHARS), AfterValidator(plain)]
Filters = Annotated[
    dict[Name, Name | Annotated[list[Name], Field(max_length=MAX_FILTER_VALUES)]], Field(max_length=MAX_FILTER_VALUES)
]


class Body(BaseModel):
    """A request body; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid")


class MessagePart(BaseModel):
    """A part of a message."""

    type: Name
    text: Text = ""


WidgetState = Annotated[Text, Field(max_length=MAX_WIDGET_CHARS)]


class Shown(Body):
    """What an application shows to the caller: its state, as text or as names with values, and its widgets."""

    application: (
        Annotated[Text, Field(max_length=MAX_APPLICATION_CHARS)]
        | Annotated[dict[Name, Name | int | float | bool | None], Field(max_length=MAX_VALUES)]
    ) = ""
    widgets: Annotated[dict[Name, WidgetState], Field(max_length=MAX_VALUES)] = {}

    def occasion(self, mode: QuestionMode) -> Occasion:
        """Return the circumstances of the question."""
        state = self.application
        text = state if isinstance(state, str) else "\n".join(f"{name}: {value}" for name, value in state.items())
        return Occasion(mode, text, tuple(self.widgets.items()))


Parts = Annotated[list[MessagePart], Field(max_length=MAX_PARTS)]


class Message(BaseModel):
    """A message of a conversation; what else clients send with it is ignored."""

    role: Name = ""
    content: Text | Parts | None = None

    @property
    def text(self) -> str:
        content = self.content or ""
        return content if isinstance(content, str) else "\n".join(part.text for part in content)
