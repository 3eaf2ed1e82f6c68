"""`POST /v1/embeddings`: vectors of the model that the indexes were made with, for who may use it.

https://platform.openai.com/docs/api-reference/embeddings

Belongs here: the shapes of that format, who may, how much at once. Does not belong here: embedding (`models`).
"""

from __future__ import annotations

import base64
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter
from fastapi.responses import JSONResponse
from numpy.typing import NDArray
from pydantic import BaseModel, Field, StringConstraints

from rag_serving.access.principals import Principal
from rag_serving.api.bodies import Name, Text
from rag_serving.api.openai.models import MODEL, unknown_model
from rag_serving.api.service import Caller, CurrentService, Service
from rag_serving.api.wire import RequestError
from rag_serving.models.protocols import ModelError

MAX_TEXTS, MAX_CHARS = 64, 20_000
"""Texts of a request, and characters of each; a model reads only the first of them (256 tokens by default)."""
_AT_ONCE = 4  # texts of one call to the model: questions of others come in between

router = APIRouter()

Input = Annotated[Text, StringConstraints(min_length=1, max_length=MAX_CHARS)]


class Body(BaseModel):
    """The request; arrays of tokens are those of another model and are refused."""

    input: Input | Annotated[list[Input], Field(min_length=1, max_length=MAX_TEXTS)]
    model: Name | None = None
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None


@router.post("/v1/embeddings")
def embed(body: Body, caller: Caller, service: CurrentService) -> JSONResponse:
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
    """Refuse who may not use the model.

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
