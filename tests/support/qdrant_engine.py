"""Qdrant's engine in process (`qdrant-edge-py`), asked by the JSON of Qdrant's REST interface.

Belongs here: collections, from JSON to the engine's own objects and back; what is not known here is refused.
Does not belong here: HTTP, keys, faults (`qdrant_server`).
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any
from uuid import UUID

import qdrant_edge as edge

from support.stand_in_http import RefusedError

_DISTANCES = {"Cosine": edge.Distance.Cosine, "Dot": edge.Distance.Dot}
_INDEXES = {
    "keyword": edge.KeywordIndexParams,
    "integer": edge.IntegerIndexParams,
    "text": edge.TextIndexParams,
}


class Collection:
    """One collection: one shard of the engine."""

    def __init__(self, folder: Path, config: dict[str, Any]) -> None:
        self.config, self.schema = config, dict[str, Any]()
        self.lock = threading.Lock()
        self._dirty = False
        self.optimizing: threading.Thread | None = None
        hnsw = config.get("hnsw_config") or {}
        folder.mkdir(parents=True)
        self.shard = edge.EdgeShard.create(
            str(folder),
            edge.EdgeConfig(
                vectors={name: _vector_params(params) for name, params in config["vectors"].items()},
                sparse_vectors={name: edge.EdgeSparseVectorParams() for name in config.get("sparse_vectors") or {}},
                hnsw_config=edge.HnswIndexConfig(
                    m=hnsw.get("m", 16), ef_construct=hnsw.get("ef_construct", 100), full_scan_threshold=10_000
                ),
            ),
        )

    def info(self) -> dict[str, Any]:
        """The collection's state; whoever asks starts the optimizers, as a server does by itself."""
        with self.lock:
            if self._dirty and self.optimizing is None:
                self._dirty = False
                self.optimizing = threading.Thread(target=self._optimize, daemon=True)
                self.optimizing.start()
        info = self.shard.info()
        counts = {name: {"data_type": kind, "points": info.points_count} for name, kind in self.schema.items()}
        vectors = {"vectors": self.config["vectors"], "sparse_vectors": self.config.get("sparse_vectors")}
        return {
            "status": "yellow" if self.optimizing else "green",
            "optimizer_status": "ok",
            "segments_count": info.segments_count,
            "points_count": info.points_count,
            "indexed_vectors_count": info.indexed_vectors_count,
            "payload_schema": counts,
            "config": {
                "params": vectors,
                "hnsw_config": {"m": 16, "ef_construct": 100, "full_scan_threshold": 10_000}
                | (self.config.get("hnsw_config") or {}),
                "optimizer_config": {"default_segment_number": 0, "flush_interval_sec": 5},
            },
        }

    def index(self, body: dict[str, Any]) -> None:
        schema = body["field_schema"]
        kind = schema if isinstance(schema, str) else schema["type"]
        options = {} if isinstance(schema, str) else {name: schema[name] for name in schema if name != "type"}
        self._update(edge.UpdateOperation.create_field_index(body["field_name"], _INDEXES[kind](**options)))
        self.schema[body["field_name"]] = kind

    def upsert(self, body: dict[str, Any]) -> None:
        points = [
            edge.Point(
                id=_id(point["id"]),
                vector={name: _vector(value) for name, value in (point.get("vector") or {}).items()},
                payload=point.get("payload") or {},
            )
            for point in body["points"]
        ]
        self._update(edge.UpdateOperation.upsert_points(points))

    def delete(self, body: dict[str, Any]) -> None:
        operations = edge.UpdateOperation
        if "filter" in body:
            return self._update(operations.delete_points_by_filter(_filter(body["filter"])))
        return self._update(operations.delete_points([_id(point) for point in body["points"]]))

    def set_payload(self, body: dict[str, Any]) -> None:
        operations = edge.UpdateOperation
        if body.get("filter"):
            return self._update(operations.set_payload_by_filter(_filter(body["filter"]), body["payload"]))
        return self._update(operations.set_payload([_id(point) for point in body["points"]], body["payload"]))

    def scroll(self, body: dict[str, Any]) -> dict[str, Any]:
        offset = body.get("offset")
        request = edge.ScrollRequest(
            offset=None if offset is None else _id(offset),
            limit=body.get("limit") or 10,
            filter=_filter(body.get("filter")),
            with_payload=_selector(body.get("with_payload", True)),
            with_vector=body.get("with_vector") or False,
        )
        records, following = self.shard.scroll(request)
        points = [_record(record) for record in records]
        return {"points": points, "next_page_offset": None if following is None else str(following)}

    def count(self, body: dict[str, Any]) -> dict[str, Any]:
        request = edge.CountRequest(exact=body.get("exact", True), filter=_filter(body.get("filter")))
        return {"count": self.shard.count(request)}

    def query(self, body: dict[str, Any]) -> dict[str, Any]:
        return {"points": [_scored(point) for point in self.shard.query(_query_request(body))]}

    def query_batch(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        request = edge.QueryBatchRequest([_query_request(search) for search in body["searches"]])
        return [{"points": [_scored(point) for point in points]} for points in self.shard.query_batch(request)]

    def close(self) -> None:
        if self.optimizing:
            self.optimizing.join()
        self.shard.close()

    def _update(self, operation: Any) -> None:
        with self.lock:
            self.shard.update(operation)
            self._dirty = True

    def _optimize(self) -> None:
        self.shard.optimize()
        with self.lock:
            self.optimizing = None


def _vector_params(params: dict[str, Any]) -> Any:
    multi = params.get("multivector_config")
    several = edge.MultiVectorConfig(edge.MultiVectorComparator.MaxSim) if multi else None
    return edge.EdgeVectorParams(
        size=params["size"], distance=_DISTANCES[params["distance"]], multivector_config=several
    )


def _id(point: Any) -> Any:
    return point if isinstance(point, int) else UUID(point)


def _vector(value: Any) -> Any:
    return edge.SparseVector(value["indices"], value["values"]) if isinstance(value, dict) else value


def _json_vector(value: Any) -> Any:
    if isinstance(value, edge.SparseVector):
        return {"indices": value.indices, "values": value.values}
    return {name: _json_vector(each) for name, each in value.items()} if isinstance(value, dict) else value


def _selector(wanted: Any) -> Any:
    return wanted if isinstance(wanted, (bool, list)) else wanted["include"]


def _record(record: Any) -> dict[str, Any]:
    vector = None if record.vector is None else _json_vector(record.vector)
    return {"id": str(record.id), "payload": record.payload, "vector": vector}


def _scored(point: Any) -> dict[str, Any]:
    return _record(point) | {"version": point.version, "score": point.score}


def _query_request(body: dict[str, Any]) -> Any:
    return edge.QueryRequest(
        limit=body.get("limit") or 10,
        query=_query(body.get("query"), body.get("using")),
        prefetches=[_prefetch(each) for each in _listed(body.get("prefetch"))],
        with_payload=_selector(body.get("with_payload") or False),
        with_vector=body.get("with_vector") or False,
        filter=_filter(body.get("filter")),
        params=_params(body.get("params")),
    )


def _prefetch(body: dict[str, Any]) -> Any:
    return edge.Prefetch(
        limit=body.get("limit") or 10,
        query=_query(body.get("query"), body.get("using")),
        prefetches=[_prefetch(each) for each in _listed(body.get("prefetch"))],
        filter=_filter(body.get("filter")),
        params=_params(body.get("params")),
    )


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if value else []


def _query(query: Any, using: str | None) -> Any:
    if isinstance(query, dict) and query.get("fusion") == "rrf":
        return edge.Fusion.Rrf(k=2)
    nearest = query["nearest"] if isinstance(query, dict) and "nearest" in query else query
    if not isinstance(nearest, list) and "indices" not in nearest:
        raise RefusedError(400, f"query {query!r} is not known here")
    return edge.Query.Nearest(_vector(nearest), using=using)


def _params(params: dict[str, Any] | None) -> Any:
    if not params:
        return None
    return edge.SearchParams(hnsw_ef=params.get("hnsw_ef"), exact=params.get("exact") or False)


def _filter(body: Any) -> Any:
    if not body:
        return None
    if unknown := {name for name in body if body[name]} - {"must", "should", "must_not"}:
        raise RefusedError(400, f"filter {sorted(unknown)} is not known here")
    clauses = {name: [_condition(each) for each in _listed(body[name])] for name in body if body[name] is not None}
    return edge.Filter(**clauses)


def _condition(body: dict[str, Any]) -> Any:
    if "has_id" in body:
        return edge.HasIdCondition({_id(point) for point in body["has_id"]})
    if "is_empty" in body:
        return edge.IsEmptyCondition(body["is_empty"]["key"])
    if "key" not in body:
        return _filter(body)
    match, bounds = body.get("match") or {}, body.get("range")
    if bounds:
        return edge.FieldCondition(key=body["key"], range=edge.RangeFloat(**bounds))
    if "value" in match:
        return edge.FieldCondition(key=body["key"], match=edge.MatchValue(match["value"]))
    if "any" in match:
        return edge.FieldCondition(key=body["key"], match=edge.MatchAny(match["any"]))
    if "text" in match:
        return edge.FieldCondition(key=body["key"], match=edge.MatchText(match["text"]))
    raise RefusedError(400, f"condition {body!r} is not known here")
