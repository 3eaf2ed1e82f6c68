"""Bounds of requests: every list and text of every request model has one, and no body is answered with 500."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

import pytest
from annotated_types import MaxLen
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from support.api_client import client_of
from support.examples import examples

from rag_serving.api.app import router
from rag_serving.api.completions import router as completions
from rag_serving.api.history import router as feedback

LONE = "\ud800"
ROUTES = [route for each in (router, completions, feedback) for route in each.routes if isinstance(route, APIRoute)]
MODELS = {
    field.field_info.annotation.__name__: field.field_info.annotation
    for route in ROUTES
    for field in route.dependant.body_params
    if isinstance(field.field_info.annotation, type) and issubclass(field.field_info.annotation, BaseModel)
}


@pytest.fixture(scope="module")
def client(wiki_home: Path) -> Iterator[TestClient]:
    with client_of(wiki_home) as opened:
        yield opened


def unbounded(where: str, kind: Any, metadata: list[Any]) -> Iterator[str]:
    """The places in a type where a request may be as long, or as deep, as it likes."""
    if get_origin(kind) is Annotated:
        kind, *more = get_args(kind)
        nested = [each for item in more for each in (item.metadata if isinstance(item, FieldInfo) else [item])]
        yield from unbounded(where, kind, [*metadata, *nested])
    elif get_origin(kind) in (Union, types.UnionType):
        for part in get_args(kind):
            yield from unbounded(where, part, metadata)
    elif isinstance(kind, type) and issubclass(kind, BaseModel):
        for name, field in kind.model_fields.items():
            yield from unbounded(f"{where}.{name}", field.annotation, field.metadata)
    elif kind is Any or kind is object:
        yield f"{where}: anything"
    elif kind is str or get_origin(kind) in (list, dict, set, tuple) or kind in (list, dict, set, tuple):
        if not any(isinstance(each, MaxLen) for each in metadata):
            yield f"{where}: {kind}"
        for part in get_args(kind):
            yield from unbounded(f"{where}[]", part, [])


def test_every_list_and_text_of_every_request_has_a_bound() -> None:
    assert len(MODELS) >= 3
    assert [place for name, model in MODELS.items() for place in unbounded(name, model, [])] == []


def test_the_check_of_bounds_sees_what_has_none() -> None:
    class Loose(BaseModel):
        text: str
        texts: list[str] | None = None
        more: dict[str, Any] = {}

    places = list(unbounded("Loose", Loose, []))
    assert [place.split(":")[0] for place in places] == [
        "Loose.text", "Loose.texts", "Loose.texts[]", "Loose.more", "Loose.more[]", "Loose.more[]",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/search", {"query": "x", "filters": {"labels": ["a"] * 100_000}}),
        ("/v1/ask", {"question": "x", "filters": {"title": "a" * 100_000}}),
        ("/v1/ask", {"question": "x", "history": [{"role": "user", "content": "y"}] * 101}),
        ("/v1/ask", {"question": "x", "filters": {str(n): "a" for n in range(1000)}}),
        ("/v1/ask", {"question": f"a{LONE}b"}),
        ("/v1/ask", {"question": "a\0b"}),
        ("/v1/ask", {"question": "x", "filters": {"space": [LONE]}}),
        ("/v1/ask", {"question": "x", "filters": {LONE: "A"}}),
        ("/v1/ask", {"question": "x", LONE: 1}),
        ("/v1/ask", {"question": "x", "k" * 300_000: 1}),
        ("/v1/search", {"query": LONE}),
        ("/v1/feedback", {"receipt_id": LONE, "verdict": "helpful"}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": LONE}]}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": [{"type": "t"}] * 101}]}),
        ("/v1/chat/completions", {"model": LONE, "messages": [{"role": "user", "content": "x"}]}),
    ],
)
def test_what_no_bound_or_encoding_allows_is_400_and_one_short_line(
    client: TestClient, path: str, body: dict[str, Any]
) -> None:
    response = client.post(path, content=json.dumps(body))
    error = response.json().get("error")
    message = error["message"] if isinstance(error, dict) else response.json()["message"]
    assert response.status_code == 400, response.text
    assert error
    assert 0 < len(message) < 600


def test_deep_nesting_is_400(client: TestClient) -> None:
    for opening, closing in (("[", "]"), ('{"a":', "}")):
        for depth in (50, 900, 60_000):
            nested = f"{opening * depth}1{closing * depth}"
            for body in (
                nested,
                f'{{"question": "x", "history": {nested}}}',
                f'{{"question": "x", "filters": {nested}}}',
            ):
                assert client.post("/v1/ask", content=body).status_code == 400


TEXTS = st.one_of(st.text(max_size=30), st.sampled_from([LONE, "\0", "space", "labels", "question", "x" * 5000]))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=12,
)
KEYS = sorted({name for model in MODELS.values() for name in model.model_fields})
BODIES = st.one_of(VALUES, st.dictionaries(st.one_of(st.sampled_from(KEYS), TEXTS), VALUES, max_size=6))


@settings(max_examples=examples(0.4), suppress_health_check=list(HealthCheck))
@given(body=BODIES, path=st.sampled_from(["/v1/ask", "/v1/search", "/v1/feedback", "/v1/chat/completions"]))
def test_no_body_is_answered_with_500(client: TestClient, body: object, path: str) -> None:
    question = {"question": "restart", "query": "restart"} if isinstance(body, dict) else {}
    for sent in (body, {**question, **body} if isinstance(body, dict) else body):
        assert client.post(path, content=json.dumps(sent)).status_code < 500


@settings(max_examples=examples(0.4), suppress_health_check=list(HealthCheck))
@given(content=st.binary(max_size=200), path=st.sampled_from(["/v1/ask", "/v1/search", "/v1/chat/completions"]))
def test_no_bytes_are_answered_with_500(client: TestClient, content: bytes, path: str) -> None:
    assert client.post(path, content=content, headers={"content-type": "application/json"}).status_code < 500
