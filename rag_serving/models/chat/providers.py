"""Text from an Ollama server, or any OpenAI-compatible one: LM Studio, vLLM, llama.cpp, OpenAI itself. Formats:
https://github.com/ollama/ollama/blob/main/docs/api.md#generate-a-chat-completion (by the package `ollama`),
https://platform.openai.com/docs/api-reference/chat-streaming."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import httpx

from rag_serving.config.models import ChatModel
from rag_serving.escaping.targets import one_line
from rag_serving.models.chat.client import RemoteChat, Schema
from rag_serving.models.chat.messages import Piece, PromptMessage
from rag_serving.models.http import BadAnswerError, key_refused, missing, with_tag
from rag_serving.models.protocols import ModelError

if TYPE_CHECKING:
    import ollama


# Parameters that some models refuse, with what they take instead; None: they do without.
_SPARED: dict[str, str | None] = {
    "max_tokens": "max_completion_tokens",
    "max_completion_tokens": "max_tokens",
    "temperature": None,
    "stream_options": None,
    "response_format": None,
}


class OpenAIChat(RemoteChat):
    """A model of an OpenAI-compatible server. What differs between servers and models is learnt from their refusals: a
    parameter that one does not know is left out, or called by its other name, from then on."""

    kind = "openai"
    default_url = "http://127.0.0.1:1234/v1"

    def __init__(self, settings: ChatModel, section: str, schema: Schema | None = None) -> None:
        super().__init__(settings, section, schema)
        self._parameters: dict[str, Any] = {
            "max_tokens": settings.max_output_tokens,
            "temperature": settings.temperature,
            "stream_options": {"include_usage": True},
        }
        if schema is not None:
            form = {"name": "reply", "strict": True, "schema": dict(schema)}
            self._parameters["response_format"] = {"type": "json_schema", "json_schema": form}

    async def stream(self, messages: Sequence[PromptMessage]) -> AsyncIterator[Piece]:
        async with httpx.AsyncClient(**self.client_options()) as client:
            url, sent = f"{self.base_url}/chat/completions", [vars(message) for message in messages]
            for _ in range(len(_SPARED) + 1):
                body = {"model": self.model, "messages": sent, "stream": True, **self._parameters}
                async with client.stream("POST", url, json=body) as response:
                    if response.is_success:
                        async for piece in self._pieces(response):
                            yield piece
                        return
                    await response.aread()
                if not self._learns(response):
                    break
            raise self._refusal(response)

    async def models(self) -> list[str] | None:
        async with httpx.AsyncClient(**self.client_options()) as client:
            response = await client.get(f"{self.base_url}/models")
        if response.status_code in (404, 405):
            return None
        if not response.is_success:
            raise self._refusal(response)
        try:
            return [str(model["id"]) for model in response.json()["data"]]
        except (ValueError, KeyError, TypeError) as error:
            raise BadAnswerError(f"no list of models ({type(error).__name__})") from error

    def missing(self) -> str:
        return (
            f"model {self.model!r} or the path is not known at {self.base_url}; load the model there, "
            f"see {self.base_url}/models, and let {self.section}.base_url end in /v1"
        )

    async def _pieces(self, response: httpx.Response) -> AsyncIterator[Piece]:
        """Yield the pieces of an event stream, or of the one document of a server that does not stream."""
        if "json" in response.headers.get("content-type", ""):
            yield self._piece((await response.aread()).decode(errors="replace"), "message")
            return
        async for data in event_data(response.aiter_bytes()):
            if data.strip() == "[DONE]":
                return
            yield self._piece(data, "delta")

    def _piece(self, data: str, part: str) -> Piece:
        try:
            content = json.loads(data)
            if error := content.get("error"):
                raise self._broken_off(error)
            choice = (content.get("choices") or [{}])[0]
            usage = content.get("usage") or {}
            return Piece(
                _text((choice.get(part) or {}).get("content")),
                choice.get("finish_reason"),
                usage.get("prompt_tokens"),
                usage.get("completion_tokens"),
                (usage.get("prompt_tokens_details") or {}).get("cached_tokens"),
            )
        except (ValueError, TypeError, AttributeError, KeyError, IndexError) as error:
            raise BadAnswerError(f"no chat message in the answer ({type(error).__name__})") from error

    def _broken_off(self, error: object) -> Exception:
        said = one_line(json.dumps(error, ensure_ascii=False))
        return self.context_too_long(said) if says_too_long(said) else BadAnswerError(said)

    def _learns(self, response: httpx.Response) -> bool:
        """Return whether the refusal names a parameter that can be spared; it is not sent again."""
        if response.status_code not in (400, 422) or says_too_long(response.text):
            return False
        refused = next((name for name in self._parameters if name in response.text), None)
        if refused is None:
            return False
        kept = {name: value for name, value in self._parameters.items() if name != refused}
        other = _SPARED[refused]
        if other and other in response.text:
            kept[other] = self._parameters[refused]
        self._parameters = kept
        return True

    def _refusal(self, response: httpx.Response) -> ModelError:
        said = f"HTTP {response.status_code}: {one_line(response.text)}"
        if says_too_long(response.text):
            return self.context_too_long(said)
        if response.status_code == 404:
            return ModelError(f"{self.missing()} ({said})")
        if response.status_code in (401, 403):
            return key_refused(self.base_url, said, f"{self.section}.api_key_env")
        return ModelError(
            f"{self.base_url} refuses to write with {self.model!r} ({said}); correct {self.section}.* or the server"
        )


def _text(content: object) -> str:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content if isinstance(content, str) else ""


# Of the line ends that Python knows only these end a line here: JSON text may contain U+2028 and U+0085 as they are.
_LINE_END = re.compile(rb"\r\n|\n|\r")


async def event_data(chunks: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """Yield the data of each event, and of one that the end of the stream leaves without its empty line."""
    data: list[str] = []
    async for line in _lines(chunks):
        if line:
            name, _, value = line.partition(":")
            if name == "data":
                data.append(value.removeprefix(" "))
        elif data:
            yield "\n".join(data)
            data = []
    if data:
        yield "\n".join(data)


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[str]:
    rest = b""
    async for chunk in chunks:
        rest += chunk
        if b"\n" not in chunk and b"\r" not in chunk:
            continue
        held = rest[-1:] if rest.endswith(b"\r") else b""  # its line feed may come with the next chunk
        *lines, rest = _LINE_END.split(rest[: len(rest) - len(held)])
        rest += held
        for line in lines:
            yield line.decode(errors="replace")
    for line in _LINE_END.split(rest):
        yield line.decode(errors="replace")


class OllamaChat(RemoteChat):
    """A model of an Ollama server. The context length is sent with every request: Ollama's own default is short, and it
    drops the beginning of a prompt, our rules, without a word."""

    kind = "ollama"
    default_url = "http://127.0.0.1:11434"
    openai_path = "/v1"

    async def stream(self, messages: Sequence[PromptMessage]) -> AsyncIterator[Piece]:
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
                        said = part.message.content or ""
                        yield Piece(said, part.done_reason, part.prompt_eval_count, part.eval_count)
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
        """Return the exception for a refusal; an error within a stream has no status and may not recur."""
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


# OpenAI, vLLM: "maximum context length is 4096 tokens", code context_length_exceeded; llama.cpp: "exceeds the available
# context size", exceed_context_size_error; LM Studio: "keep the first 111490 tokens when context the overflows";
# Ollama: "input length exceeds the context length"; others: "prompt is too long", "too many tokens".
_TOO_LONG = re.compile(
    r"context_length_exceeded|exceed_context_size|maximum (?:context|model) length|context the overflows"
    r"|context (?:length|size|window).{0,40}exceed|exceed\w{0,4}.{0,40}context (?:length|size|window)"
    r"|prompt is too long|too many tokens|reduce the length",
    re.IGNORECASE,
)


def says_too_long(text: str) -> bool:
    """Return whether an error message says that the prompt has more tokens than the model reads."""
    return _TOO_LONG.search(text) is not None


CHATS: Mapping[str, type[RemoteChat]] = {chat.kind: chat for chat in (OpenAIChat, OllamaChat)}
