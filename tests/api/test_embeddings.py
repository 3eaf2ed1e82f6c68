"""The vectors of the indexes' model, for who may have them."""

from __future__ import annotations

import base64
from pathlib import Path

import numpy as np
import pytest
from support.api_client import bearer, client_of

from rag_serving.config.models import Embedding
from rag_serving.models.embedding.factory import open_embedder

TOKENS = '{"r": {"tenant": "acme"}, "e": {"tenant": "acme", "roles": ["reader", "editor"]}}'
TEXTS = ["restart a broker", "consumer lag", "offsets", "a", "b"]


def test_texts_get_the_vectors_that_the_indexes_have(wiki_home: Path) -> None:
    with client_of(wiki_home) as client:
        made = client.post("/v1/embeddings", json={"input": TEXTS, "model": "all-MiniLM-L6-v2"}).json()
        encoded = client.post("/v1/embeddings", json={"input": TEXTS[0], "encoding_format": "base64"}).json()
    vectors = np.array([item["embedding"] for item in made["data"]], np.float32)
    embedder = open_embedder(Embedding())
    assert np.allclose(vectors, embedder.embed_documents(TEXTS), atol=1e-5)
    assert [item["index"] for item in made["data"]] == list(range(len(TEXTS)))
    assert (made["object"], made["model"]) == ("list", embedder.name)
    assert made["usage"]["total_tokens"] == made["usage"]["prompt_tokens"] > 0
    decoded = np.frombuffer(base64.b64decode(encoded["data"][0]["embedding"]), "<f4")
    assert np.allclose(decoded, vectors[0], atol=1e-5)


def test_only_the_configured_role_may(wiki_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CITELOCK_TOKENS", TOKENS)

    def statuses(**serving: str) -> list[int]:
        with client_of(wiki_home, serving={"auth": "tokens", **serving}) as client:
            body = {"input": "x"}
            return [client.post("/v1/embeddings", json=body, headers=bearer(token)).status_code for token in "re"]

    assert statuses() == [403, 200]
    assert statuses(embeddings="reader") == [200, 200]
    assert statuses(embeddings="none") == [403, 403]


@pytest.mark.parametrize(
    "body",
    [
        {"input": []},
        {"input": ""},
        {"input": ["x"] * 65},
        {"input": "x" * 20_001},
        {"input": [1, 2, 3]},
        {"input": "x", "dimensions": 7},
        {"input": "x", "encoding_format": "hex"},
        {},
    ],
)
def test_a_request_beyond_its_bounds_is_refused(wiki_home: Path, body: dict[str, object]) -> None:
    with client_of(wiki_home) as client:
        refused = client.post("/v1/embeddings", json=body)
    assert refused.status_code == 400
    assert refused.json()["error"]["type"] == "invalid_request_error"
