"""`GET /v1/models`: each tenant is a model, so that chat clients can list and name what they ask.

https://platform.openai.com/docs/api-reference/models

Belongs here: the names of models, which tenant one means. Does not belong here: answering (`completions`).
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi import Request as HttpRequest
from fastapi.responses import JSONResponse

from rag_serving.access.principals import Principal
from rag_serving.api.service import CurrentService, RequireCaller, Service, caller_of
from rag_serving.api.wire import RequestError

MODEL = "citelock"
_CREATED = 1_767_225_600  # OpenAI's clients ask for a time; no model here has one

router = APIRouter()


def model_of(tenant: str) -> str:
    """Return the name of a tenant's model."""
    return f"{MODEL}-{tenant}"


@router.get("/v1/models", dependencies=[RequireCaller])
def list_models(request: HttpRequest, service: CurrentService, tenant: str | None = None) -> JSONResponse:
    """The models that the caller may ask: with a token its tenant's, on this machine all tenants'."""
    return JSONResponse({"object": "list", "data": [_model(name) for name in _tenants(request, service, tenant)]})


@router.get("/v1/models/{model}", dependencies=[RequireCaller])
def show_model(model: str, request: HttpRequest, service: CurrentService) -> JSONResponse:
    for name in _tenants(request, service, None):
        if model == model_of(name):
            return JSONResponse(_model(name))
    raise unknown_model(model)


def caller_for(request: HttpRequest, service: Service, tenant: str | None, model: str | None) -> Principal:
    """Return who asks a model: its tenant is the one that the model names, where it names one.

    Other names than those of tenants are accepted: many chat clients insist on one of their own.

    Raises:
        AuthError: nobody who may, or of no named tenant.
        RequestError: the model is none that the caller may ask.
    """
    named = (model or "").removeprefix(f"{MODEL}-") if (model or "").startswith(f"{MODEL}-") else None
    if named is not None and named not in _tenants(request, service, tenant):
        raise unknown_model(model or "")
    return caller_of(request, named or tenant)


def unknown_model(model: str) -> RequestError:
    return RequestError(404, "MODEL_NOT_FOUND", f"there is no model {model!r}; GET /v1/models lists them", "model")


def _tenants(request: HttpRequest, service: Service, tenant: str | None) -> list[str]:
    """Return the tenants that the caller may ask: one, unless nobody here is asked who he is."""
    if service.config.serving.auth == "loopback" and tenant is None:
        return sorted(service.pipelines)
    return [caller_of(request, tenant).tenant]


def _model(tenant: str) -> dict[str, Any]:
    return {"id": model_of(tenant), "object": "model", "created": _CREATED, "owned_by": MODEL}
