"""The figures of a publication in a database stand at `published_generation` in Dagster: of Postgres,
`test_builds_into_postgres.py`."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from support.project import Project
from support.qdrant_server import QdrantServer


def published(project: Project, index: dict[str, Any]) -> dict[str, Any]:
    """The metadata of the asset, of a wiki that was published on disk before."""
    project.wiki.configure(index=index)
    return project.publish()["published_generation"]


def test_figures_of_qdrant(built_project: Project) -> None:
    with closing(QdrantServer()) as server:
        index = {"kind": "qdrant", "url": server.url, "quota_vectors": 1000}
        found = published(built_project, index)
        chunks = found["dagster/row_count"]
        assert found["qdrant_points_sent"] > chunks
        assert found["qdrant_points_present"] == found["qdrant_requests_repeated"] == 0
        assert found["qdrant_batches"] >= 2
        assert found["qdrant_seconds"] > 0
        assert (found["qdrant_sample_queries"], found["qdrant_sample_recall"]) == (16, 1)
        assert found["qdrant_quota"] == f"{chunks} of 1,000 vectors (index.quota_vectors)"
        assert found["qdrant_warnings"] == "none"
        again = built_project.publish()["published_generation"]
        assert again["qdrant_points_sent"] == 0
        assert again["qdrant_points_present"] == found["qdrant_points_sent"]
