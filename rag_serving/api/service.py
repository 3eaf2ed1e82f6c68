"""What the routes of the API share: the service, who asks, requests that cannot be served.

Belongs here: dependencies of routes. Does not belong here: routes (`app`, `completions`), deciding who asks (`auth`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

from fastapi import Depends
from fastapi import Request as HttpRequest

from rag_serving.access import Principal
from rag_serving.api.auth import Authenticator, Request
from rag_serving.api.monitoring import Reading, read
from rag_serving.api.siblings import Siblings
from rag_serving.config import Config
from rag_serving.models.token_count import TokenCount
from rag_serving.pipeline import Pipeline


class RequestError(Exception):
    """A request that cannot be served as it stands."""

    def __init__(self, status: int, code: str, message: str, param: str | None = None) -> None:
        """`param`: the part of the body that is wrong."""
        super().__init__(message)
        self.status, self.code, self.param = status, code, param


@dataclass(frozen=True)
class Service:
    """What requests share."""

    config: Config
    authenticator: Authenticator
    pipelines: Mapping[str, Pipeline]
    siblings: Siblings | None = None

    def readings(self, tenant: str) -> list[Reading]:
        """What each process of the server tells of a tenant."""
        return self.siblings.readings(tenant) if self.siblings else [read(self.pipelines[tenant])]

    @cached_property
    def token_count(self) -> TokenCount:
        return TokenCount(self.config.embedding)

    def close(self) -> None:
        if self.siblings:
            self.siblings.close()
        for pipeline in self.pipelines.values():
            pipeline.close()


def service_of(request: HttpRequest) -> Service:
    service: Service = request.app.state.service
    return service


def caller_of(request: HttpRequest, tenant: str | None = None) -> Principal:
    return service_of(request).authenticator.principal(_seen(request, tenant))


def admit(request: HttpRequest) -> None:
    """Let nobody in who may not ask of any tenant."""
    service_of(request).authenticator.admit(_seen(request, None))


def _seen(request: HttpRequest, tenant: str | None) -> Request:
    client = request.client.host if request.client else None
    return Request(client, request.headers.get("host"), request.headers.get("authorization"), tenant)


Caller = Annotated[Principal, Depends(caller_of)]
Known = Depends(admit)
"""Of routes that show nothing of a tenant: all but `/healthz` and `/readyz` ask who calls."""
Shared = Annotated[Service, Depends(service_of)]


def checked_text(name: str, value: str, config: Config) -> str:
    """A question without outer white space, neither empty nor too long."""
    text = value.strip()
    limit = config.serving.max_question_chars
    if not text:
        raise RequestError(400, "BAD_REQUEST", f"'{name}' is empty", name)
    if len(text) > limit:
        raise RequestError(400, "TOO_LONG", f"'{name}' has {len(text)} characters, at most {limit} are read", name)
    return text
