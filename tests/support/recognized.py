"""Requests as the middleware leaves them to routes: whom their credentials name is known."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from rag_serving.access.principals import Principal
from rag_serving.api.auth import Authenticator, Request


def recognized(authenticator: Authenticator, request: Request) -> Principal:
    """Return who asks; AuthError as for a route."""
    found = asyncio.run(authenticator.recognize(request))
    return authenticator.principal(replace(request, recognized=found))
