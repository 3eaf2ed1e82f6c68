"""`GET /v1/models`: each tenant is a model for each mode, so that chat clients can list and name what they ask.

https://platform.openai.com/docs/api-reference/models

Belongs here: the names of models, which tenant and mode one means. Does not belong here: answering (`conversation`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from fastapi import APIRouter
from fastapi import Request as HttpRequest
from fastapi.responses import JSONResponse

from rag_serving.access.principals import Principal
from rag_serving.api.service import CurrentService, RequireCaller, Service, caller_of
from rag_serving.api.wire import RequestError

MODEL = "citelock"
_SELECTED_TEXT = ":selected-text"
_CREATED = 1_767_225_600  # OpenAI's clients ask for a time; no model here has one

_SHOWN = 8  # names in the message on one that does not exist

Mode = Literal["corpus", "selected_text"]

router = APIRouter()


class Asked(NamedTuple):
    """Who asks which model."""

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


def asked_of(request: HttpRequest, service: Service, tenant: str | None, model: str | None) -> Asked:
    """Return who asks which model: the tenant is the one that its name has, where it has one.

    Raises:
        AuthError: nobody who may, or of no named tenant.
        RequestError: the model is none that the caller may ask.
    """
    name = model or MODEL
    mode: Mode = "selected_text" if name.endswith(_SELECTED_TEXT) else "corpus"
    named = name.removesuffix(_SELECTED_TEXT)
    if named == MODEL:
        return Asked(caller_of(request, tenant), mode)
    tenants = {model_of(each): each for each in _tenants(request, service, tenant)}
    if named not in tenants:
        raise unknown_model(name, _names(request, service, tenant))
    return Asked(caller_of(request, tenants[named]), mode)


def unknown_model(model: str, names: Sequence[str]) -> RequestError:
    shown = ", ".join(names[:_SHOWN]) + (" …" if len(names) > _SHOWN else "")
    return RequestError(404, "MODEL_NOT_FOUND", f"the model {model!r} does not exist; available: {shown}", "model")


def _names(request: HttpRequest, service: Service, tenant: str | None) -> list[str]:
    tenants = _tenants(request, service, tenant)
    modes: tuple[Mode, ...] = ("corpus", "selected_text")
    return [model_of(each, mode) for mode in modes for each in tenants]


def _tenants(request: HttpRequest, service: Service, tenant: str | None) -> list[str]:
    """Return the tenants that the caller may ask: one, unless nobody here is asked who he is."""
    if service.config.serving.auth == "loopback" and tenant is None:
        return sorted(service.pipelines)
    return [caller_of(request, tenant).tenant]


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": _CREATED, "owned_by": MODEL}
