"""A publish job over synthetic chunks, which can be made to end early; run as a program it builds without end."""

from __future__ import annotations

import sys
from pathlib import Path

from support.synthetic import MODEL, TENANT, chunk_table, clustered_vectors, config_for

from rag_assets.publishing.build import build_dense, build_lexical_index, commit_generation
from rag_assets.publishing.checks import Coverage, check_generation
from rag_assets.publishing.publish import prune, publish
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config

STEPS = ("dense", "lexical", "generation", "check", "publish", "prune")


def build_until(store: Store, config: Config, count: int, last: str) -> None:
    """A publish job over `count` chunks that dies after the step `last`."""
    table, vectors = chunk_table(count), clustered_vectors(count)
    steps = STEPS[: STEPS.index(last) + 1]
    build_dense(store, TENANT, table, vectors, config, MODEL)
    if "lexical" in steps:
        build_lexical_index(store, TENANT, table)
    if "generation" not in steps:
        return
    name = commit_generation(store, TENANT, config).id
    if "check" in steps:
        coverage = Coverage({"eng": set(table["page_id"].to_pylist())}, {})
        assert all(result.passed for result in check_generation(store, TENANT, name, config, coverage, MODEL))
    if "publish" in steps:
        publish(store, TENANT, name, config)
    if "prune" in steps:
        prune(store, TENANT, config)


def build_for_ever(home: Path, count: int) -> None:
    """Publish ever larger generations, telling each size."""
    store, config = Store(home), config_for(home, keep_generations=2, max_shard_chunks=128)
    while True:
        build_until(store, config, count, "prune")
        print(count, flush=True)
        count += 4


if __name__ == "__main__":
    build_for_ever(Path(sys.argv[1]), int(sys.argv[2]))
