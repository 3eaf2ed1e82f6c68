"""The published sample, and candidates that are damaged on their way to publication."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa
import yaml
from numpy.typing import NDArray

from rag_assets.definitions import build_defs
from rag_assets.partitions import register
from rag_assets.progress import Reporter
from rag_assets.publishing.passage_vectors import count_vectors
from rag_assets.publishing.workspace import BuildWorkspace, load_vectors, save_vectors
from rag_assets.steps.contexts.contextualize import embedded_texts
from rag_serving.artifacts.schema import GENERATION_CHUNKS
from rag_serving.artifacts.store import Store, read_json, read_table, write_table
from rag_serving.config.loading import Config, load_config
from rag_serving.indexes.catalog import EVAL_REPORT
from rag_serving.models import open_embedder
from rag_serving.models.protocols import Embedder

ROOT = Path(__file__).parents[2]
TENANT = "demo"
MADE = ["dedup_map", "contexts", "embeddings"]
INDEXED = ["lexical_index", "dense_index", "generation", "eval_report", "published_generation"]

Vectors = NDArray[np.float32]


class Sample:
    """The sample wiki, or some of its spaces, in a home of its own, built asset by asset."""

    def __init__(
        self, folder: Path, spaces: Sequence[str] = ("ENG", "OPS"), judged: bool = True, most: int | None = None
    ) -> None:
        """Copy the pages, `most` of each space, and write a configuration; `judged`: candidates answer the gold
        questions."""
        for space in spaces:
            if not (folder / space).exists():
                (folder / space).mkdir()
                for page in sorted((ROOT / "sample" / space).glob("*.json"))[:most]:
                    shutil.copy(page, folder / space)
        self.sources = [space.lower() for space in spaces]
        self.config_path = folder / "app.yaml"
        sources = {
            space.lower(): {
                "kind": "confluence_dump",
                "tenant": TENANT,
                "path": str(folder / space),
                "readers": "everyone",
            }
            for space in spaces
        }
        content = {"home": str(folder / "home"), "tenants": {TENANT: {}}, "sources": sources}
        gold = ROOT / "evals" / "gold" if judged else folder / "no gold"
        evaluation = {"gold": str(gold), "gates": str(ROOT / "evals" / "gates.toml")}
        self.config_path.write_text(yaml.safe_dump({**content, "evaluation": evaluation}), encoding="utf-8")
        self.config: Config = load_config(self.config_path)
        self.pages = [path for path in sorted(folder.glob("*/*.json")) if self.is_indexed(path)]
        self.store = Store(self.config.home)
        self.candidate = self.store.candidate(TENANT)

    @classmethod
    def copy(cls, built: Path, folder: Path, spaces: Sequence[str] = ("ENG", "OPS"), judged: bool = True) -> Sample:
        """Copy a sample that was built."""
        shutil.copytree(built, folder, dirs_exist_ok=True)
        return cls(folder, spaces, judged)

    def is_indexed(self, page: Path) -> bool:
        """An archived page changes nothing that readers see."""
        labels = json.loads(page.read_text(encoding="utf-8"))["metadata"]["labels"]["results"]
        return not {label["name"] for label in labels} & set(self.config.ingestion.drop_labels)

    def ingest(self, **tags: str) -> None:
        for source in self.sources:
            assert self.run(source, ["pages", "sections", "chunks"], **tags).success

    def run(self, partition: str, assets: list[str], **tags: str) -> dg.ExecuteInProcessResult:
        """Materialize some assets of one partition."""
        defs = build_defs(self.config_path, reporter=Reporter())
        job = dg.define_asset_job("some", selection=assets)
        resolved = dg.Definitions(
            assets=defs.assets, jobs=[job], resources=defs.resources, executor=dg.in_process_executor
        ).resolve_job_def("some")
        with dg.DagsterInstance.ephemeral() as instance:
            register(instance, self.config)
            return resolved.execute_in_process(
                instance=instance,
                partition_key=partition,
                raise_on_error=False,
                tags={f"citelock/{name}": value for name, value in tags.items()},
                run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
            )

    def publish(self, **tags: str) -> dg.ExecuteInProcessResult:
        return self.run(TENANT, [*MADE, *INDEXED], **tags)

    def edit_page(self, number: int) -> None:
        """Add a sentence to a page, as a new version of it, and ingest its source; the pages take turns."""
        path = self.pages[number % len(self.pages)]
        page = json.loads(path.read_text(encoding="utf-8"))
        page["version"]["number"] += 1
        page["body"]["storage"]["value"] += f"<p>Edit {number} of this page.</p>"
        path.write_text(json.dumps(page), encoding="utf-8")
        assert self.run(path.parent.name.lower(), ["pages", "sections", "chunks"]).success

    def current(self) -> str | None:
        return self.store.current(TENANT)

    def report(self, generation: str) -> dict[str, Any]:
        return dict(read_json(self.store.generation(TENANT, generation) / EVAL_REPORT))

    def embedded(self) -> tuple[pa.Table, Vectors]:
        folder = self.candidate / "embeddings"
        table = read_table(folder / "chunks.parquet", GENERATION_CHUNKS)
        dimension = read_json(folder / "model.json")["dimension"]
        return table, np.array(load_vectors(folder, count_vectors(table), dimension))

    def leave(self, table: pa.Table, vectors: Vectors) -> None:
        """What the step `embeddings` would have left."""
        folder = self.candidate / "embeddings"
        write_table(folder / "chunks.parquet", table, GENERATION_CHUNKS)
        save_vectors(folder, vectors)


def shuffled_vectors(sample: Sample) -> None:
    table, vectors = sample.embedded()
    sample.leave(table, vectors[np.random.default_rng(7).permutation(len(vectors))])


def wrong_prompt_prefix(sample: Sample) -> None:
    table, _ = sample.embedded()
    texts = [f"Represent this sentence for searching relevant passages: {text}" for text in embedded_texts(table)]
    sample.leave(table, embedder(sample).embed_documents(texts))


def no_prefix(sample: Sample) -> None:
    table, _ = sample.embedded()
    sample.leave(table, embedder(sample).embed_documents(table["text"].to_pylist()))


def half_of_the_chunks(sample: Sample) -> None:
    table, vectors = sample.embedded()
    kept = list(range(0, len(table), 2))
    sample.leave(table.take(kept), vectors[kept])
    chunks = read_table(sample.candidate / "chunks.parquet", GENERATION_CHUNKS)
    write_table(sample.candidate / "chunks.parquet", chunks.take(kept), GENERATION_CHUNKS)
    workspace = BuildWorkspace.of(sample.store, TENANT)
    workspace.without_sentences()  # those of all chunks would be refused before, and so would facts
    workspace.write_facts(None, ())


def anchors_shifted(sample: Sample) -> None:
    table, vectors = sample.embedded()
    sample.leave(shifted(table), vectors)


def models_mixed(sample: Sample) -> None:
    """A third of the vectors is of another model with as many dimensions: a rotation keeps all but the meaning."""
    table, vectors = sample.embedded()
    rotation = np.linalg.qr(np.random.default_rng(3).normal(size=(vectors.shape[1],) * 2))[0]
    vectors[::3] = vectors[::3] @ rotation.astype(np.float32)
    sample.leave(table, vectors)


def shifted(table: pa.Table) -> pa.Table:
    """Every chunk links to the heading of the next section of its page, the last one to the first."""
    pages, anchors, urls = (table[name].to_pylist() for name in ("page_id", "anchor", "url"))
    of_page: dict[str, list[tuple[str, str]]] = {}
    for page, anchor, url in zip(pages, anchors, urls, strict=True):
        headings = of_page.setdefault(page, [])
        if (anchor, url) not in headings:
            headings.append((anchor, url))
    found = []
    for page, anchor, url in zip(pages, anchors, urls, strict=True):
        headings = of_page[page]
        found.append(headings[(headings.index((anchor, url)) + 1) % len(headings)])
    for name, values in zip(("anchor", "url"), zip(*found, strict=True), strict=True):
        place = table.column_names.index(name)
        table = table.set_column(place, table.schema.field(name), pa.array(values, pa.string()))
    return table


def embedder(sample: Sample) -> Embedder:
    return open_embedder(sample.config.embedding)
