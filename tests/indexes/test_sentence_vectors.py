"""Vectors of sentences: those of the model within a bound, only of what was asked for, whole or refused by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.counting_embedder import Counting
from support.synthetic import TENANT, chunk_row, config_for

from rag_assets.publishing.build import build_dense, build_lexical_index, commit_generation
from rag_assets.publishing.passage_vectors import build_sentences, embedding_through, encoded
from rag_assets.publishing.repair import repair
from rag_assets.state.content_cache import SEAL_PURPOSE, VectorCache
from rag_serving.access.principals import Principal
from rag_serving.answering.answerer import Answering, Question
from rag_serving.answering.lock import freeze
from rag_serving.artifacts.manifest import EmbedderFacts
from rag_serving.artifacts.schema import GENERATION_CHUNKS
from rag_serving.artifacts.secret import Seal
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.indexes.catalog import move_current
from rag_serving.indexes.generation import Generation
from rag_serving.indexes.integrity import find_damage
from rag_serving.indexes.sentence_vectors import (
    MAX_ERROR,
    SENTENCE_ROWS_FILE,
    SENTENCES_FILE,
    SentenceVectors,
    sentence_key,
)
from rag_serving.indexes.view import HiddenRowError
from rag_serving.records.passages import Candidate
from rag_serving.text.analyzer import analyze
from rag_serving.tracing import StageTrace

OPEN = "The night crane parks at quay four. The tide gauge is read every hour by the pilot."
SECRET = "The harbour master earns nine thousand a month. The tide gauge is read every hour by the pilot."
SAID = "The night crane parks at quay four."
HIDDEN = "The harbour master earns nine thousand a month."
MODEL = Counting(32)
EVERYBODY, BOARD = Principal(TENANT), Principal(TENANT, None, frozenset({"board"}))
STEPS = "Do this:\n\n1. Stop the crane at the quay.\n2. Tell the pilot on the radio."


def cached(store: Store) -> VectorCache:
    return VectorCache(store.cache(TENANT), MODEL.name, Seal(store.home, SEAL_PURPOSE))


def build(home: Path, texts: Sequence[str] = (OPEN, SECRET, STEPS)) -> tuple[Store, str]:
    store, config = Store(home), config_for(home)
    rows = [chunk_row(str(page), 0, text) for page, text in enumerate(texts)]
    if len(rows) > 1:
        rows[1]["readers"] = "group:board"
    table = GENERATION_CHUNKS.table(rows)
    vectors = MODEL.embed_documents(list(texts))
    build_dense(store, TENANT, table, vectors, config, MODEL.name)
    build_lexical_index(store, TENANT, table)
    embed = embedding_through(cached(store), MODEL, lambda done, total: None)  # noqa: ARG005
    build_sentences(store, TENANT, table, embed, EmbedderFacts(name=MODEL.name, dimension=32))
    manifest = commit_generation(store, TENANT, config)
    move_current(store, TENANT, manifest.id, config)
    return store, manifest.id


@pytest.fixture
def home(tmp_path: Path) -> tuple[Store, str]:
    return build(tmp_path)


@pytest.fixture
def generation(home: tuple[Store, str]) -> Iterator[Generation]:
    store, identifier = home
    generation = Generation.open(store, TENANT, identifier, config_for(store.home))
    yield generation
    generation.close()


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.sampled_from([3, 32, 384]))
def test_stored_similarities_are_those_of_the_vectors_within_the_bound(seed: int, count: int, dimension: int) -> None:
    random = np.random.default_rng(seed)
    vectors = (random.normal(size=(count, dimension)) * random.exponential(size=dimension)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    texts = [f"sentence {number}" for number in range(count)]
    keys = np.array([sentence_key(text) for text in texts], np.uint64)
    stored = SentenceVectors(encoded(keys, vectors), np.array([0, count]), np.arange(count))
    question = random.normal(size=dimension).astype(np.float32)
    question /= np.linalg.norm(question)
    found = stored.similarities(question, [0], texts)
    assert np.abs(np.array(found, np.float32) - vectors @ question).max() <= MAX_ERROR


@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.lists(st.integers(0, 11), max_size=5, unique=True), min_size=1, max_size=6),
    st.lists(st.integers(0, 5), max_size=8),
)
def test_the_best_of_a_chunk_is_that_of_its_sentences_one_by_one(
    seed: int, owned: list[list[int]], asked: list[int]
) -> None:
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(12, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    borders = np.cumsum([0, *map(len, owned)])
    members = np.array([member for chunk in owned for member in chunk], np.int64)
    stored = SentenceVectors(encoded(np.arange(12, dtype=np.uint64), vectors), borders, members)
    question = vectors[seed % 12]
    chunks = [chunk for chunk in asked if chunk < len(owned)]
    found = stored.best(question, chunks)
    assert found.shape == (len(chunks), 2)
    for (heading, nearest), chunk in zip(found.tolist(), chunks, strict=True):
        near = [float(vectors[member] @ question) for member in owned[chunk]]
        for value, among in ((heading, near[:1]), (nearest, near[1:])):
            assert value == pytest.approx(max(among), abs=MAX_ERROR) if among else np.isnan(value)


def test_what_is_near_in_a_chunk_is_refused_of_a_hidden_one(generation: Generation) -> None:
    everything, view = generation.for_reader(BOARD), generation.for_reader(EVERYBODY)
    question = MODEL.embed_query(HIDDEN)
    seen = [row for row in range(3) if generation.readers_of(row) == "everyone"]
    (hidden,) = {0, 1, 2} - set(seen)
    assert everything.sentence_evidence(question, [hidden])[0, 1] == pytest.approx(1, abs=MAX_ERROR)
    assert view.sentence_evidence(question, seen).max() < 0.99
    with pytest.raises(HiddenRowError):
        view.sentence_evidence(question, [*seen, hidden])


def test_each_sentence_of_a_chunk_has_its_vector(generation: Generation) -> None:
    view, question = generation.for_reader(BOARD), MODEL.embed_query("tide")
    rows = [row for row in range(3) if (view.chunks([row])[0].text) == OPEN]
    expected = float(MODEL.embed_query(SAID) @ question)
    (found, unknown) = view.sentence_similarities(question, rows, [SAID, "Nobody wrote this."])
    assert found == pytest.approx(expected, abs=MAX_ERROR)
    assert unknown is None


def test_a_sentence_of_a_hidden_chunk_is_refused_and_by_other_rows_unknown(generation: Generation) -> None:
    everything, view = generation.for_reader(BOARD), generation.for_reader(EVERYBODY)
    question = MODEL.embed_query("salary")
    seen = [row for row in range(3) if view.row_of(generation.ids_of([row])[0]) is not None]
    (hidden,) = {0, 1, 2} - set(seen)
    assert everything.sentence_similarities(question, [hidden], [HIDDEN])[0] is not None
    assert view.sentence_similarities(question, seen, [HIDDEN]) == [None]
    with pytest.raises(HiddenRowError):
        view.sentence_similarities(question, [*seen, hidden], [HIDDEN])


def test_an_answer_embeds_only_sentences_that_have_no_vector(generation: Generation) -> None:
    model = Counting(32)
    view = generation.for_reader(EVERYBODY)
    rows = [row for row in range(3) if generation.readers_of(row) == "everyone"]
    lock = freeze([Candidate(chunk, 1.0) for chunk in view.chunks(rows)], 8)
    answering = Answering(config_for(Path("unused")), model)
    for text in ("Where does the night crane park at the quay?", "How do I stop the crane at the quay?"):
        vector, weights = model.embed_query(text), dict.fromkeys(analyze(text), 1.0)
        stored = lambda texts, vector=vector: view.sentence_similarities(vector, rows, texts)  # noqa: E731
        answering.answer(StageTrace(), Question(text, text, weights, vector, stored), lock)
        assert model.asked == []
        answering.answer(StageTrace(), Question(text, text, weights, vector), lock)
        assert model.asked
        model.asked.clear()


@pytest.mark.parametrize("name", [SENTENCES_FILE, SENTENCE_ROWS_FILE])
def test_an_altered_file_is_refused_by_name_and_restored_to_the_last_bit(home: tuple[Store, str], name: str) -> None:
    store, identifier = home
    config = config_for(store.home)
    path = store.generation(TENANT, identifier) / name
    whole = path.read_bytes()
    turned = bytearray(whole)
    turned[-1] ^= 1
    path.unlink()  # the build's own copy is linked, not copied
    path.write_bytes(turned)
    with pytest.raises(StoreError, match=name):
        Generation.open(store, TENANT, identifier, config)
    assert any(name in str(damage) for damage in find_damage(store, TENANT, identifier, config, "digests"))
    (store.candidate(TENANT) / "sentences" / name).unlink()  # only the cache has the vectors
    repair(store, TENANT, identifier, config)
    assert path.read_bytes() == whole


def test_vectors_of_other_chunks_never_come_into_a_generation(tmp_path: Path) -> None:
    store, _ = build(tmp_path)
    config = config_for(tmp_path)
    table = GENERATION_CHUNKS.table([chunk_row("9", 0, OPEN)])
    build_dense(store, TENANT, table, MODEL.embed_documents([OPEN]), config, MODEL.name)
    build_lexical_index(store, TENANT, table)
    with pytest.raises(StoreError, match="of other chunks"):
        commit_generation(store, TENANT, config)


def test_unchanged_sentences_are_embedded_once(tmp_path: Path) -> None:
    store, _ = build(tmp_path, [OPEN])
    told: list[tuple[int, int]] = []
    embed = embedding_through(cached(store), MODEL, lambda *done: told.append(done))
    table = GENERATION_CHUNKS.table([chunk_row("0", 0, OPEN + " It rains at the wharf all day.")])
    built = build_sentences(store, TENANT, table, embed, EmbedderFacts(name=MODEL.name, dimension=32))
    assert (built.sentences, built.embedded, told) == (4, 1, [(4, 4)]), "three sentences and their heading"
