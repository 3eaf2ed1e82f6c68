"""The configured language model.

Belongs here: the class of each provider.
Does not belong here: the classes; the extractive generator, which is no model (`answering.selection.selector`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rag_serving.config.models import ChatModel
    from rag_serving.models.chat.client import RemoteChat, Schema


def open_chat(
    provider: Literal["ollama", "openai"], settings: ChatModel, section: str, schema: Schema | None = None
) -> RemoteChat:
    """Open the configured language model without contacting it. Replies are JSON of this schema, if its server supports
    that.

    Raises:
        ModelError: no model is named, or a named API key is not set.
    """
    if provider == "ollama":
        from rag_serving.models.chat.providers import OllamaChat

        return OllamaChat(settings, section, schema)
    from rag_serving.models.chat.providers import OpenAIChat

    return OpenAIChat(settings, section, schema)
