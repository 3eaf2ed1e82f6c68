"""`GET /v1/models`: each tenant is a model for each mode; `POST /v1/embeddings`: vectors of the indexes' model.

https://platform.openai.com/docs/api-reference/models and /embeddings

Belongs here: the names of models, which tenant and mode one means; the shapes of embeddings, who may have them, how
much at once. Does not belong here: answering (`exchange`), embedding (`models`).
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from fastapi import APIRouter
from fastapi import Request as HttpRequest
from fastapi.responses import JSONResponse
from numpy.typing import NDArray
from pydantic import BaseModel, Field, StringConstraints

from rag_serving.access.principals import Principal
from rag_serving.api.bodies import Name, Text
from rag_serving.api.service import Caller, CurrentService, RequireCaller, Service, caller_of
from rag_serving.api.wire import RequestError
from rag_serving.models.protocols import ModelError

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
    """Return the caller and the requested model; a tenant in the model's name takes precedence.

    Raises:
        AuthError: the caller has no access, or none to the named tenant.
        RequestError: no such model for this caller.
    """
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
    _require_right(caller, service)
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
    data = [_item(index, vector, body.encoding_format) for index, vector in enumerate(vectors)]
    usage = {"prompt_tokens": read, "total_tokens": read}
    return JSONResponse({"object": "list", "model": name, "data": data, "usage": usage})


def _require_right(caller: Principal, service: Service) -> None:
    """Refuse callers who may not use the model.

    Raises:
        RequestError: `serving.embeddings` names another role, or none.
    """
    role = service.config.serving.embeddings
    if role == "none" or role not in caller.roles:
        raise RequestError(403, "FORBIDDEN", "embeddings are not for this caller (serving.embeddings)")


def _item(index: int, vector: NDArray[np.float32], encoding: str) -> dict[str, Any]:
    if encoding == "base64":
        shown: Any = base64.b64encode(vector.astype("<f4").tobytes()).decode()
    else:
        shown = vector.tolist()
    return {"object": "embedding", "index": index, "embedding": shown}
