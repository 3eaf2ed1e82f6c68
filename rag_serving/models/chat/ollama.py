"""Text from an Ollama server.

Belongs here: `/api/chat` and `/api/tags` by the `ollama` package
(https://github.com/ollama/ollama/blob/main/docs/api.md#generate-a-chat-completion).
Does not belong here: patience, retries and limits (`chat`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from rag_serving.escaping.targets import one_line
from rag_serving.models.chat.client import RemoteChat
from rag_serving.models.chat.context_length import says_too_long
from rag_serving.models.chat.messages import Message, Piece
from rag_serving.models.http import BadAnswerError, key_refused
from rag_serving.models.ollama_names import missing, with_tag
from rag_serving.models.protocols import ModelError

if TYPE_CHECKING:
    import ollama


class OllamaChat(RemoteChat):
    """A model of an Ollama server.

    The context length is sent with every request: Ollama's own default is short, and it drops the beginning of a
    prompt, our rules, without a word.
    """

    kind = "ollama"
    default_url = "http://127.0.0.1:11434"

    async def stream(self, messages: Sequence[Message]) -> AsyncIterator[Piece]:
        import ollama

        sent = [ollama.Message(role=message.role, content=message.content) for message in messages]
        options = {
            "num_ctx": self.settings.context_tokens,
            "num_predict": self.settings.max_output_tokens,
            "temperature": self.settings.temperature,
        }
        async with self._client() as client:
            try:
                form = dict(self.schema) if self.schema else None
                answered = await client.chat(self.model, sent, stream=True, options=options, format=form)
                async with aclosing(answered) as parts:
                    async for part in parts:
                        yield _piece(part)
            except ollama.ResponseError as error:
                raise self._failure(error) from error
            except (TypeError, ValueError, AttributeError) as error:
                raise BadAnswerError(f"no chat message in the answer ({type(error).__name__})") from error

    async def models(self) -> list[str] | None:
        import ollama

        async with self._client() as client:
            try:
                return [model.model or "" for model in (await client.list()).models]
            except ollama.ResponseError as error:
                raise self._failure(error) from error
            except (TypeError, ValueError) as error:
                raise BadAnswerError(f"no list of models ({type(error).__name__})") from error

    def is_among(self, listed: Sequence[str]) -> bool:
        return with_tag(self.model) in listed

    def missing(self) -> str:
        return missing(self.model, self.base_url)

    def _client(self) -> ollama.AsyncClient:
        import ollama

        return ollama.AsyncClient(self.base_url, **self.client_options())

    def _failure(self, error: ollama.ResponseError) -> Exception:
        """Return what a refusal means; an error within a stream has no status and may not be met again."""
        said = one_line(error.error)
        if says_too_long(said):
            return self.context_too_long(said)
        if error.status_code == 404 and "not found" in said:
            return ModelError(self.missing())
        if error.status_code in (401, 403):
            return key_refused(self.base_url, f"HTTP {error.status_code}: {said}", f"{self.section}.api_key_env")
        if error.status_code < 0:
            return BadAnswerError(said)
        return ModelError(
            f"the Ollama server at {self.base_url} refuses to write with {self.model!r} "
            f"(HTTP {error.status_code}: {said}); correct {self.section}.*"
        )


def _piece(part: ollama.ChatResponse) -> Piece:
    return Piece(part.message.content or "", part.done_reason, part.prompt_eval_count, part.eval_count)
