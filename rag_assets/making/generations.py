"""A tenant's generation: vectors and indexes of what was selected, the candidate with its checks, its publication."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rag_assets.embedding_usage import BuildVectors, DeadTextsError, PageUsage, WaitFigures, build_vectors
from rag_assets.making import Making
from rag_assets.publishing.arrange import BuildError
from rag_assets.publishing.build import DenseBuild, LexicalBuild, build_dense, build_lexical_index, commit_generation
from rag_assets.publishing.checks import CheckResult, Coverage, check_generation, checks_made_again, documents_at_fault
from rag_assets.publishing.documents import EmbeddingProgress, begin_embedding, gather_originals, settle_documents
from rag_assets.publishing.passage_vectors import (
    BudgetedEmbedder,
    EmbeddedPassages,
    SentencesBuild,
    build_sentences,
    count_vectors,
    embed_passages,
    embedding_through,
    wants_sentences,
)
from rag_assets.publishing.publish import Pruned, PublishOutcome, discard_failed, prune, publish
from rag_assets.publishing.workspace import BuildWorkspace, load_vectors, save_vectors
from rag_assets.state import records
from rag_assets.state.planning import leave_out
from rag_assets.steps.contexts.contextualize import with_vector_keys
from rag_serving.artifacts.manifest import WORDS, EmbedderFacts, Manifest
from rag_serving.artifacts.schema import CONTEXTS, GENERATION_CHUNKS
from rag_serving.artifacts.store import commit_folder, read_json, read_table, remove_folder, write_json, write_table
from rag_serving.config.loading import Config
from rag_serving.hooks import BudgetError, open_budgets
from rag_serving.models import open_embedder, open_input_limit
from rag_serving.models.protocols import Embedder


@dataclass(frozen=True)
class MadeVectors:
    """Count the chunks, their vectors and those of sentences, with what embedding cost."""

    chunks: int
    model: str
    embedded: EmbeddedPassages
    sentences: SentencesBuild
    usage: Mapping[str, PageUsage]
    waits: WaitFigures | None
    seconds: float


def make_embeddings(making: Making, dead: Callable[[BuildVectors], object] = lambda _: None) -> MadeVectors:
    """Write the vectors of passages, and of sentences if they are wanted; what is known is not embedded again. The
    cache is written every 64 texts, or every second: a build that is killed goes on where it was. `dead` is called with
    what the build took if it fails because texts were put aside."""
    tenant, config, store, reporter = making.key, making.config, making.store, making.reporter
    folder = store.candidate(tenant)
    reporter.begin(tenant, "embeddings")
    begin_embedding(config, tenant)
    chunks = read_table(folder / "chunks.parquet", GENERATION_CHUNKS)
    limit = open_input_limit(config.embedding)
    documents = EmbeddingProgress(config, tenant)
    with (
        _within_budget(config, tenant, open_embedder(config.embedding)) as embedder,
        build_vectors(config, tenant, embedder, documents, making.log.info) as build,
        _told_of_dead(build, dead),
    ):
        started = time.monotonic()
        track = reporter.track("texts embedded", making.log.info)
        embedded = embed_passages(build.vectors, embedder, chunks, limit, track)
        seconds = time.monotonic() - started
        _write_vectors(folder, embedded, embedder.name)
        made = SentencesBuild()
        if wants_sentences(config):
            track = reporter.track("sentences embedded", making.log.info)
            model = EmbedderFacts(name=embedder.name, dimension=embedded.vectors.shape[1])
            made = build_sentences(store, tenant, chunks, embedding_through(build.vectors, embedder, track), model)
        else:
            BuildWorkspace.of(store, tenant).without_sentences()
        return MadeVectors(len(chunks), embedder.name, embedded, made, build.usage(), build.waits, seconds)


def make_word_index(making: Making) -> None:
    """Write the substitute for the vectors of passages until there are some: they are searched by their words."""
    folder = making.store.candidate(making.key)
    chunks = read_table(folder / "chunks.parquet", GENERATION_CHUNKS)
    named = with_vector_keys(chunks, [[WORDS.name]] * len(chunks))
    vectors = np.ones((len(chunks), WORDS.dimension), np.float32)
    _write_vectors(folder, EmbeddedPassages(named, vectors, 0, 0), WORDS.name)
    BuildWorkspace.of(making.store, making.key).without_sentences()


def _write_vectors(folder: Path, embedded: EmbeddedPassages, model: str) -> None:
    working = folder / ".embeddings"
    remove_folder(working)
    write_table(working / "chunks.parquet", embedded.chunks, GENERATION_CHUNKS)
    save_vectors(working, embedded.vectors)
    write_json(working / "model.json", {"embedder": model, "dimension": embedded.vectors.shape[1]})
    commit_folder(working, folder / "embeddings")


@contextmanager
def _within_budget(config: Config, tenant: str, embedder: Embedder) -> Iterator[Embedder]:
    """Yield a model that stops when the tenant's budget is spent, which ends the step; workers look themselves."""
    budget = open_budgets(config, [tenant]).get(tenant)
    is_limited_here = budget is not None and config.jobs.embedding == "in_process"
    try:
        yield BudgetedEmbedder(embedder, budget, config.embedding) if budget and is_limited_here else embedder
    except BudgetError as error:
        raise BuildError(f"{error}; what was embedded is kept") from error
    finally:
        if budget:
            budget.close()


@contextmanager
def _told_of_dead(build: BuildVectors, dead: Callable[[BuildVectors], object]) -> Iterator[None]:
    try:
        yield
    except DeadTextsError:
        dead(build)
        raise


def make_dense_index(making: Making) -> DenseBuild:
    """Build the shards whose content is new."""
    tenant, config, store = making.key, making.config, making.store
    folder = store.candidate(tenant) / "embeddings"
    making.reporter.begin(tenant, "dense index")
    chunks = read_table(folder / "chunks.parquet", GENERATION_CHUNKS)
    model = read_json(folder / "model.json")
    if discarded := discard_failed(store, tenant, config):
        making.log.info("removed candidates that had failed their checks: %s", ", ".join(discarded))
    vectors = load_vectors(folder, count_vectors(chunks), model["dimension"])
    track = making.reporter.track("chunks indexed", making.log.info)
    return build_dense(store, tenant, chunks, vectors, config, model["embedder"], progress=track)


def make_lexical_index(making: Making) -> LexicalBuild:
    """Build the keyword index of prefix and text of every chunk."""
    tenant, store = making.key, making.store
    making.reporter.begin(tenant, "lexical index")
    chunks = read_table(store.candidate(tenant) / "chunks.parquet", GENERATION_CHUNKS)
    track = making.reporter.track("chunks analyzed", making.log.info)
    return build_lexical_index(store, tenant, chunks, progress=track)


def make_generation(making: Making) -> tuple[Manifest, list[CheckResult], int]:
    """Commit the candidate and check it; return how many files its pages were read from, too. Documents that a check
    names are left out of the next build, if they are few."""
    tenant, config, store = making.key, making.config, making.store
    making.reporter.begin(tenant, "generation")
    candidate = records.read_candidate(store, tenant)
    levels = Counter(read_table(store.candidate(tenant) / "contexts.parquet", CONTEXTS, ["level"])["level"].to_pylist())
    originals = gather_originals(store, tenant, candidate.sources)
    manifest = commit_generation(store, tenant, config, candidate.sources, levels)
    coverage = Coverage(candidate.enumerated, candidate.explained)
    making.reporter.begin(tenant, "checks")
    embedder, is_whole = open_embedder(config.embedding), manifest.embedder != WORDS
    folder = store.generation(tenant, manifest.id)
    again = checks_made_again(embedder, open_input_limit(config.embedding), folder, candidate.selected)
    name, again = (embedder.name, again) if is_whole else (WORDS.name, again[1:])  # without that of vectors
    results = check_generation(store, tenant, manifest.id, config, coverage, name, again)
    checked = records.PublishState(
        generation=manifest.id,
        inputs=candidate.inputs if is_whole else "",  # another one is due
        chunks=manifest.chunks,
        shards=len(manifest.shards),
        gates={result.name: result.passed for result in results},
        duplicates_dropped=candidate.duplicates_dropped,
    )
    records.write_checked(store, tenant, checked)
    at_fault = documents_at_fault(results)
    if leave_out(store, tenant, at_fault):
        making.log.warning("the next build leaves out %s, which failed a check", ", ".join(sorted(at_fault)))
    return manifest, results, len(originals)


def make_publication(
    making: Making, gates: Sequence[CheckResult] = ()
) -> tuple[records.PublishState, PublishOutcome, Pruned]:
    """Move the tenant's pointer to the candidate, where its checks and these gates passed. Raises PublishError: one of
    them failed."""
    tenant, config, store = making.key, making.config, making.store
    making.reporter.begin(tenant, "publish")
    checked = records.read_checked(store, tenant)
    outcome = publish(store, tenant, checked.generation, config, gates)
    records.write_publish_state(store, tenant, checked)
    (store.candidate(tenant) / records.BEGUN).unlink(missing_ok=True)
    pruned = prune(store, tenant, config)
    settle_documents(config, tenant, explained=records.read_candidate(store, tenant).explained)
    return checked, outcome, pruned
