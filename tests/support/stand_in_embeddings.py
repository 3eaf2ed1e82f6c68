"""A stand-in embedding server on loopback that speaks Ollama's and OpenAI's wire formats, faults included."""

from __future__ import annotations

import hashlib
from typing import Any, ClassVar

import numpy as np

from support.stand_in_model import Fault, ModelHandler, StandInModel

__all__ = ["DIGEST", "Fault", "StandIn", "true_vector"]

DIGEST = "0123456789abcdef" * 4


def true_vector(text: str, dimension: int = 8) -> np.ndarray:
    """What the stand-in's model gives for a text; not normalized, as a real server's may not be."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
    return np.random.default_rng(seed).normal(size=dimension) * 3


class StandIn(StandInModel):
    """Answers for the model `bge-m3`."""

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.dimension = 8
        self.shuffle = False
        self.spoil: Any = None


class _Handler(ModelHandler):
    server: StandIn
    gets: ClassVar[dict[str, object]] = {
        "/api/tags": {"models": [{"model": "bge-m3:latest", "name": "bge-m3:latest", "digest": DIGEST}]}
    }
    posts: ClassVar[dict[str, str]] = {"/api/embed": "_ollama", "/v1/embeddings": "_openai"}

    def _ollama(self, body: dict[str, Any]) -> None:
        if body["model"] != "bge-m3":
            return self.write_json(404, {"error": f'model "{body["model"]}" not found, try pulling it first'})
        return self.write_json(200, {"model": body["model"], "embeddings": self._vectors(body["input"])})

    def _openai(self, body: dict[str, Any]) -> None:
        if body["model"] != "bge-m3":
            return self.write_json(404, {"error": {"message": "The model does not exist.", "code": "model_not_found"}})
        vectors = self._vectors(body["input"])
        data = [{"object": "embedding", "index": i, "embedding": v} for i, v in enumerate(vectors)]
        if self.server.shuffle:
            data.reverse()
        return self.write_json(200, {"object": "list", "data": data, "model": body["model"], "usage": {}})

    def _vectors(self, texts: list[str]) -> list[Any]:
        vectors: list[Any] = [true_vector(text, self.server.dimension).tolist() for text in texts]
        return self.server.spoil(vectors) if self.server.spoil else vectors
