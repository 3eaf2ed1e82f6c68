"""Indexes as OpenSearch has them: mappings, documents that are seen after a refresh, queries, exact k-NN.

Belongs here: what the documented requests answer; what is not known here is refused. Does not belong here: HTTP, keys,
aliases (`opensearch_server`).

There is no graph: a `knn` query finds what a comparison with all would find. Strict where a server is not: a field that
the mapping lacks cannot be searched.
"""

from __future__ import annotations

import base64
import threading
from collections import defaultdict
from typing import Any

import numpy as np

from support.stand_in_http import RefusedError

LARGEST_KEYWORD = 32_766  # bytes
RESULT_WINDOW, TERMS = 10_000, 65_536


class StoredIndex:
    """One index."""

    def __init__(self, name: str, body: dict[str, Any]) -> None:
        self.name, self.settings = name, body["settings"]["index"]
        mappings = body["mappings"]
        self.fields: dict[str, dict[str, Any]] = mappings["properties"]
        self._excluded = set((mappings.get("_source") or {}).get("excludes", ()))
        unknown = {field["type"] for field in self.fields.values()} - {"keyword", "long", "knn_vector"}
        if unknown:
            raise RefusedError(400, f"mapper_parsing_exception: no handler for type {sorted(unknown)}")
        for field in self.fields.values():
            if field["type"] == "knn_vector" and not self.settings.get("knn"):
                raise RefusedError(400, "index.knn is false")
        self.lock = threading.RLock()
        self.written: dict[str, dict[str, Any]] = {}
        self.vectors: dict[str, dict[str, np.ndarray]] = defaultdict(dict)
        self.refresh()

    def write(self, name: str, source: dict[str, Any]) -> None:
        """Take a document; it is seen after the next refresh."""
        vectors = {}
        for field, value in source.items():
            kind = self.fields.get(field, {}).get("type")
            values = value if isinstance(value, list) else [value]
            if kind == "keyword" and any(len(str(each).encode()) > LARGEST_KEYWORD for each in values):
                raise RefusedError(400, f"illegal_argument_exception: Document contains an immense term in {field!r}")
            if kind == "long" and not all(isinstance(each, int) and -(2**63) <= each < 2**63 for each in values):
                raise RefusedError(400, f"mapper_parsing_exception: failed to parse field [{field}] of type [long]")
            if kind == "knn_vector":
                if len(value) != self.fields[field]["dimension"]:
                    raise RefusedError(400, f"mapper_parsing_exception: Vector dimension mismatch of {field!r}")
                vectors[field] = np.array(value, np.float32)
        with self.lock:
            self.written[name] = {field: value for field, value in source.items() if field not in self._excluded}
            for field, vector in vectors.items():
                self.vectors[field][name] = vector

    def update(self, name: str, doc: dict[str, Any]) -> None:
        with self.lock:
            if name not in self.written:
                raise RefusedError(404, f"document_missing_exception: [{name}]: document missing")
            self.written[name] = {**self.written[name], **doc}

    def delete(self, names: list[str]) -> None:
        """Lose documents."""
        with self.lock:
            for name in names:
                self.written.pop(name, None)
            self.refresh()

    def refresh(self) -> None:
        """Let searches see what was written."""
        with self.lock:
            self.seen = dict(self.written)
            self._names = list(self.seen)
            self._values: dict[str, dict[Any, set[int]]] = {
                field: defaultdict(set) for field, how in self.fields.items() if how["type"] != "knn_vector"
            }
            for place, source in enumerate(self.seen.values()):
                for field, values in self._values.items():
                    value = source.get(field)
                    for each in value if isinstance(value, list) else [] if value is None else [value]:
                        values[each].add(place)
            self._matrices = {field: self._matrix(field) for field in self.fields.keys() - self._values.keys()}

    def _matrix(self, field: str) -> tuple[np.ndarray, np.ndarray]:
        """Places of documents with a vector, and these."""
        held = self.vectors[field]
        places = [place for place, name in enumerate(self._names) if name in held]
        rows = [held[self._names[place]] for place in places]
        empty = np.zeros((0, self.fields[field]["dimension"]), np.float32)
        return np.array(places, np.int64), np.concatenate([empty, *(row[None] for row in rows)])

    def count(self, body: dict[str, Any]) -> int:
        with self.lock:
            return len(self._matching(body["query"]))

    def search(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        """The hits of a request."""
        size = body.get("size", 10)
        if size > RESULT_WINDOW:
            raise RefusedError(400, "illegal_argument_exception: Result window is too large")
        if unknown := body.keys() - {"query", "size", "_source", "sort", "search_after", "track_total_hits"}:
            raise RefusedError(400, f"parsing_exception: Unknown key {sorted(unknown)}")
        with self.lock:
            scores = self._scored(body["query"])
            sort = body.get("sort")
            if sort:
                ((field, direction),) = sort[0].items()
                if direction != "asc" or self.fields[field]["type"] != "long":
                    raise RefusedError(400, "sort is not known here")
                keyed = sorted((self.seen[self._names[place]][field], place) for place in scores)
                after = body.get("search_after")
                keyed = [pair for pair in keyed if after is None or pair[0] > after[0]][:size]
                return [self._hit(place, None, body.get("_source", True)) | {"sort": [key]} for key, place in keyed]
            ordered = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:size]
            return [self._hit(place, score, body.get("_source", True)) for place, score in ordered]

    def _hit(self, place: int, score: float | None, wanted: Any) -> dict[str, Any]:
        source = self.seen[self._names[place]]
        hit = {"_index": self.name, "_id": self._names[place], "_score": score}
        if wanted is False:
            return hit
        fields = source if wanted is True else {name: source[name] for name in wanted if name in source}
        return hit | {"_source": fields}

    def _scored(self, query: dict[str, Any]) -> dict[int, float]:
        ((kind, body),) = query.items()
        if kind == "knn":
            ((field, asked),) = body.items()
            if not 1 <= asked["k"] <= RESULT_WINDOW:
                raise RefusedError(400, "illegal_argument_exception: k must be in [1, 10000]")
            if asked.keys() - {"vector", "k", "filter", "method_parameters"}:
                raise RefusedError(400, f"parsing_exception: {sorted(asked)}")
            scores = self._products(field, asked["vector"], self._matching(asked["filter"]))
            return dict(sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[: asked["k"]])
        if kind == "script_score":
            script, params = body["script"], body["script"]["params"]
            if (script["lang"], script["source"], params["space_type"]) != ("knn", "knn_score", "innerproduct"):
                raise RefusedError(400, "script_exception: this script is not known here")
            return self._products(params["field"], params["query_value"], self._matching(body["query"]))
        return dict.fromkeys(self._matching(query), 0.0)

    def _products(self, field: str, vector: list[float], among: set[int]) -> dict[int, float]:
        """Scores of the space `innerproduct`."""
        places, matrix = self._matrices[field]
        if len(vector) != matrix.shape[1]:
            raise RefusedError(400, "query_shard_exception: Query vector has invalid dimension")
        allowed = np.isin(places, np.fromiter(among, np.int64, len(among)))
        products = np.einsum("ij,j->i", matrix[allowed], np.array(vector, np.float32))
        scores = np.where(products >= 0, products + 1, 1 / (1 - np.minimum(products, 0)))
        return dict(zip(places[allowed].tolist(), scores.tolist(), strict=True))

    def _matching(self, query: dict[str, Any]) -> set[int]:
        ((kind, body),) = query.items()
        if kind == "match_all":
            return set(range(len(self._names)))
        if kind == "term":
            ((field, value),) = body.items()
            return set(self._field(field).get(value, ()))
        if kind == "terms":
            ((field, values),) = body.items()
            if len(values) > TERMS:
                raise RefusedError(400, f"illegal_argument_exception: The number of terms [{len(values)}] is too large")
            held = self._field(field)
            return set().union(*(held[value] for value in values if value in held))
        if kind == "bool" and body.keys() <= {"filter", "should", "minimum_should_match"}:
            parts = [self._matching(each) for each in body.get("filter", ())]
            if "should" in body:
                parts.append(set().union(*(self._matching(each) for each in body["should"])))
            return set.intersection(*parts)
        raise RefusedError(400, f"parsing_exception: unknown query [{kind}]")

    def _field(self, field: str) -> dict[Any, set[int]]:
        if field not in self._values:
            raise RefusedError(400, f"field {field!r} is not in the mapping")
        return self._values[field]

    @property
    def size(self) -> int:
        """About the bytes of all documents."""
        return sum(len(str(source)) for source in self.seen.values())


def packed(vector: np.ndarray) -> str:
    """A vector as documents keep it."""
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()
