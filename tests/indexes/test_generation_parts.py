"""A generation in many parts answers as the same chunks in one, and a change leaves the other parts as they are."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.examples import examples
from support.synthetic import MODEL, TENANT, WORDS, chunk_row, clustered_vectors, config_for, folder_bytes

from rag_assets.publishing.arrange import part_borders
from rag_assets.publishing.build import build_generation
from rag_assets.publishing.repair import repair
from rag_serving.access.principals import Principal
from rag_serving.artifacts.columns import values_digest
from rag_serving.artifacts.manifest import read_manifest
from rag_serving.artifacts.schema import GENERATION_CHUNKS
from rag_serving.artifacts.store import Store, read_json
from rag_serving.indexes import exact
from rag_serving.indexes import generation as opening
from rag_serving.indexes.catalog import move_current, rollback
from rag_serving.indexes.exact import JoinedVectors
from rag_serving.indexes.generation import Generation
from rag_serving.indexes.integrity import find_damage
from rag_serving.indexes.view import ReaderView
from rag_serving.records.queries import Filters

MOST, DIMENSION = 16, 8
READERS = ("everyone", "group:staff", "nobody")
WHO = (Principal(TENANT), Principal(TENANT, None, frozenset({"staff"})))

Vectors = NDArray[np.float32]


class Page(NamedTuple):
    """A page of some chunks; another `seed` gives other texts and vectors."""

    source: str
    name: str
    chunks: int
    seed: int


PAGE = st.builds(
    Page, st.sampled_from(["eng", "ops"]), st.integers(0, 99).map(str), st.integers(1, 6), st.integers(0, 9)
)
PAGES = st.lists(PAGE, min_size=MOST + 1, max_size=40, unique_by=lambda page: page.name)


def rows_of(page: Page) -> Iterator[dict[str, Any]]:
    random = np.random.default_rng([page.seed, int(page.name)])
    for index in range(page.chunks):
        key = f"{page.name}.{index}.{page.seed}"
        yield chunk_row(
            page.name,
            index,
            f"{' '.join(random.choice(WORDS, 6))} marker{key}",
            source=page.source,
            title=f"Page {page.name} {WORDS[page.seed]}",
            space=f"S{int(page.name) % 3}",
            labels=[f"l{index % 2}"] if index else None,
            lang=["en", None][index % 2],
            readers=READERS[(int(page.name) + index) % len(READERS)],
            is_boilerplate=index == 3,
            vector_keys=[f"{key}.{window}" for window in range(1 + (page.seed + index) % 3)],
            places=[place(page, index)] if index % 2 else [],
        )


def place(page: Page, index: int) -> dict[str, Any]:
    texts = ("space", "title", "heading", "url", "source", "kind", "section_id")
    own = {"chunk_id": f"twin{page.name}:1:{index}", "labels": ["twin"], "readers": READERS[index % len(READERS)]}
    return dict.fromkeys(texts, f"twin of {page.name}") | own


def built(home: Path, pages: Sequence[Page], most: int = MOST, shuffled: int | None = None) -> Generation:
    """Build a generation of the pages, whose parts have at most so many chunks; `shuffled`: in another order."""
    rows = [row for page in pages for row in rows_of(page)]
    if shuffled is not None:
        np.random.default_rng(shuffled).shuffle(rows)
    config = config_for(home, max_part_chunks=most, max_graph_chunks=0)
    vectors = np.concatenate([vectors_of(row["vector_keys"]) for row in rows])
    return build_generation(Store(home), TENANT, GENERATION_CHUNKS.table(rows), vectors, config, MODEL)


def vectors_of(keys: Sequence[str]) -> Vectors:
    """A vector for each name, whatever else is built."""
    return np.concatenate([clustered_vectors(1, DIMENSION, seed=int.from_bytes(key.encode()) % 2**31) for key in keys])


def published(home: Path, pages: Sequence[Page], most: int = MOST) -> str:
    generation = built(home, pages, most)
    generation.close()
    move_current(Store(home), TENANT, generation.id, config_for(home))
    return generation.id


def parts_in(home: Path, name: str) -> dict[str, dict[str, str]]:
    """The digests of the files of each part, by its folder."""
    found: dict[str, dict[str, str]] = {}
    for file, digest in folder_bytes(Store(home).generation(TENANT, name)).items():
        if file.startswith("parts/"):
            found.setdefault(file.rpartition("/")[0], {})[file.rpartition("/")[2]] = digest
    return found


def answers(view: ReaderView) -> dict[str, Any]:
    """What one reader is answered in every way that there is."""
    vector, every = clustered_vectors(1, DIMENSION, seed=5)[0], np.arange(len(view.matching(Filters())))
    rows = np.flatnonzero(view.matching(Filters()))
    terms = dict.fromkeys(WORDS[:4], 1.0)
    narrowed = view.matching(Filters(space=("S1",), labels=("l1",)))
    return {
        "dense": [view.dense(vector, k) for k in (1, 5, len(every))],
        "dense among": view.dense(vector, 5, narrowed),
        "similarities": view.similarities(vector, rows).tobytes(),
        "vectors": view.vectors(rows.tolist()).tobytes(),
        "lexical": view.lexical(terms, 9),
        "lexical scores": view.lexical_scores(terms).tobytes(),
        "keywords": [view.keywords.rows_with([word]).tolist() for word in WORDS[:4]],
        "named": [found.tolist() for found in view.keywords.pages_named([["page"]], frozenset())],
        "chunks": view.chunks(rows.tolist()),
        "backwards": view.chunks(rows[::-1].tolist()),
        "filters": [
            view.matching(filters).tolist()
            for filters in (Filters(labels=("l1",)), Filters(labels=("twin",)), Filters(title=("page", "1")))
        ],
        "facets": view.facets(),
        "names": view.names,
        "pages": view.pages(rows).tolist(),
        "boilerplate": view.boilerplate(rows).tolist(),
        "holding": [view.holding(phrase).tolist() for phrase in WORDS[:4]],
        "of a page": [(view.page_rows(page).tolist(), view.page_text(page)) for page in map(str, range(0, 100, 7))],
        "dropped": [view.duplicates_of_page(f"twin{page}") for page in range(0, 100, 7)],
        "around": [view.around(int(row)) for row in rows[::5]],
    }


@given(PAGES, st.integers(0, 5))
@settings(max_examples=examples(0.12))
def test_parts_answer_as_one_set_of_files_to_the_last_bit(
    tmp_path_factory: pytest.TempPathFactory, pages: list[Page], seed: int
) -> None:
    whole = built(tmp_path_factory.mktemp("whole"), pages, most=10_000)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(opening, "CODED_ROWS", 1)
        patched.setattr(exact, "_FEW", 1)
        parted = built(tmp_path_factory.mktemp("parted"), pages, shuffled=seed)
        assert (whole.manifest.parts, len(whole)) == ((), sum(page.chunks for page in pages))
        assert len(parted.manifest.parts) >= max(2, len(parted) / MOST)
        assert parted.chunk_ids() == whole.chunk_ids()
        for who in WHO:
            assert answers(parted.for_reader(who)) == answers(whole.for_reader(who))
    assert parted.table.combine_chunks() == whole.table.combine_chunks()
    assert parted.manifest.inputs_digest == whole.manifest.inputs_digest
    assert parted.id != whole.id
    whole.close()
    parted.close()


def test_questions_are_bounded_by_the_codes_of_every_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = [Page("eng", str(number), 4, 0) for number in range(60)]
    monkeypatch.setattr(opening, "CODED_ROWS", 1)
    generation = built(tmp_path, pages)
    codes, table = generation.vector_table.codes, generation.vector_table
    assert isinstance(table.vectors, JoinedVectors)
    assert codes is not None
    assert codes.is_prepared
    vector = clustered_vectors(1, DIMENSION)[0]
    lower, upper = codes.bounds(vector)
    similarities = table.vectors[:] @ vector
    assert ((lower <= similarities) & (similarities <= upper)).all()
    generation.close()


@given(st.lists(st.integers(0, 5), min_size=1, max_size=5).filter(any), st.data())
def test_joined_vectors_are_read_as_one_array(lengths: list[int], data: st.DataObject) -> None:
    whole = clustered_vectors(sum(lengths), DIMENSION)
    borders = np.cumsum([0, *lengths]).tolist()
    joined = JoinedVectors([whole[first:last] for first, last in pairwise(borders)])
    places = data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=9))
    first, last = sorted(data.draw(st.tuples(st.integers(0, len(whole)), st.integers(0, len(whole)))))
    assert (len(joined), joined.shape) == (len(whole), whole.shape)
    np.testing.assert_array_equal(joined[np.array(places, np.int64)], whole[np.array(places, np.int64)])
    np.testing.assert_array_equal(joined[first:last], whole[first:last])
    np.testing.assert_array_equal(joined[len(whole) - 1], whole[-1])


@given(PAGES, st.integers(1, 40))
def test_parts_begin_at_pages_and_have_their_sizes(pages: list[Page], most: int) -> None:
    ordered = sorted(pages)
    table = pa.table(
        {name: [getattr(page, own) for page in ordered for _ in range(page.chunks)] for name, own in NAMES.items()}
    )
    borders = part_borders(table, most)
    begins = np.cumsum([0, *(page.chunks for page in ordered)]).tolist()
    assert (borders[0], borders[-1]) == (0, len(table))
    assert set(borders) <= set(begins)
    for first, last in pairwise(borders):
        assert last - first <= most or begins.index(last) - begins.index(first) == 1
        assert last - first >= most // 4 or last == len(table)
    assert part_borders(pa.concat_tables([table.slice(0, 7), table.slice(7)]), most) == borders


NAMES: Mapping[str, str] = {"source": "source", "page_id": "name"}


def test_a_page_that_comes_or_goes_moves_few_borders() -> None:
    """Of some hundred parts, on average hardly more than the one with the page."""
    random = np.random.default_rng(7)
    pages = {f"{number:09}": 1 + number % 5 for number in random.integers(10**9, size=3000).tolist()}
    before, moved = parts_of_pages(pages), []
    for name in random.choice(sorted(pages), 20).tolist():
        moved.append(len(parts_of_pages({page: size for page, size in pages.items() if page != name}) - before))
        moved.append(len(parts_of_pages({**pages, f"{name}x": 3}) - before))
    assert len(before) > 80
    assert np.mean(moved) < 2


def parts_of_pages(pages: Mapping[str, int]) -> set[tuple[str, ...]]:
    names = [name for name, size in sorted(pages.items()) for _ in range(size)]
    borders = part_borders(pa.table({"source": ["eng"] * len(names), "page_id": names}), 128)
    return {tuple(names[first:last]) for first, last in pairwise(borders)}


@given(PAGES, PAGE, st.data())
@settings(max_examples=examples(0.06))
def test_a_change_writes_only_the_parts_that_it_concerns(
    tmp_path_factory: pytest.TempPathFactory, pages: list[Page], new: Page, data: st.DataObject
) -> None:
    home, edited = tmp_path_factory.mktemp("home"), data.draw(st.sampled_from(pages))
    others = [page for page in pages if page != edited]
    before = by_pages(home, published(home, pages))
    after = by_pages(home, published(home, [*others, edited._replace(seed=edited.seed + 10)]))
    assert {part for part in after if after[part] != before[part]} == {part for part in after if edited.name in part}
    for changed in ([page for page in others if page.name != new.name] + [new._replace(seed=edited.seed)], others):
        found = by_pages(home, published(home, changed))
        same = {part for part in found.keys() & before.keys() if not part & {new.name, edited.name}}
        assert all(found[part] == before[part] for part in same)


def by_pages(home: Path, name: str) -> dict[frozenset[str], dict[str, str]]:
    """The digests of the files of each part, by the pages that it holds; of a generation in one part nothing."""
    generation = Generation.open(Store(home), TENANT, name, config_for(home))
    borders = np.cumsum([0, *(part.chunks for part in generation.manifest.parts)]).tolist()
    ids, files = generation.table["page_id"].to_pylist(), parts_in(home, name).values()
    generation.close()
    return {frozenset(ids[first:last]): own for (first, last), own in zip(pairwise(borders), files, strict=True)}


def test_indexes_of_words_are_made_of_those_of_a_generation_in_parts(tmp_path: Path) -> None:
    pages = [Page(["eng", "ops"][number % 2], str(number), 3, number % 10) for number in range(40)]
    changed = [page if number % 7 else page._replace(seed=11) for number, page in enumerate(pages)][2:]
    home = tmp_path / "home"
    published(home, pages)
    name = published(home, changed)
    again = published(tmp_path / "new", changed)
    assert name == again
    files = [folder_bytes(Store(folder).generation(TENANT, name)) for folder in (home, tmp_path / "new")]
    assert all(found.pop("manifest.json") for found in files)
    assert files[0] == files[1]


PARTED = [Page("eng", str(number), 4, number % 3) for number in range(25)]


@pytest.fixture(scope="module")
def parted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a published generation in parts, and one before that with other pages; tests take copies."""
    home = tmp_path_factory.mktemp("parted")
    published(home, [page._replace(seed=9) if page.name == "3" else page for page in PARTED[2:]])
    published(home, PARTED)
    shutil.rmtree(Store(home).candidate(TENANT))
    return home


@pytest.fixture
def home(parted: Path, tmp_path: Path) -> Path:
    shutil.copytree(parted, tmp_path / "home")
    return tmp_path / "home"


@pytest.mark.parametrize("file", ["chunks.arrow", "chunks.parquet", "vectors.npy", "codes.npy", "codes-facts.npy"])
def test_damage_in_one_part_is_named_and_restored_to_the_last_bit(home: Path, file: str) -> None:
    store, config = Store(home), config_for(home)
    name = store.current(TENANT) or ""
    folder = store.generation(TENANT, name)
    before, number = folder_bytes(folder), len(parts_in(home, name)) - 1
    damaged = f"parts/{number:04}/{file}"
    content = bytearray((folder / damaged).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / damaged).write_bytes(content)
    assert [damage.part for damage in find_damage(store, TENANT, name, config, "digests")] == [
        f"generations/{name}/{damaged}"
    ]
    done = repair(store, TENANT, name, config)
    assert (done.restored, done.left) == ((damaged,), ())
    assert folder_bytes(folder) == before


def test_what_a_part_lacks_is_made_of_its_other_files(home: Path) -> None:
    store, config = Store(home), config_for(home)
    name = store.current(TENANT) or ""
    folder = store.generation(TENANT, name)
    before = folder_bytes(folder)
    for other in store.generations(TENANT).iterdir():
        if other != folder:
            shutil.rmtree(other)
    for file in before:
        if file not in ("manifest.json",) and not file.endswith(("chunks.parquet", "vectors.npy")):
            (folder / file).unlink()
    assert repair(store, TENANT, name, config).left == ()
    assert folder_bytes(folder) == before


def test_a_generation_in_parts_is_rolled_back_to(home: Path) -> None:
    store, config = Store(home), config_for(home)
    current = store.current(TENANT)
    before = rollback(store, TENANT, config)
    assert (store.current(TENANT), before != current) == (before, True)
    generation = Generation.open(store, TENANT, before, config)
    assert len(generation.manifest.parts) > 1
    generation.close()


def test_its_id_tells_a_generation_in_parts_from_the_same_chunks_in_others(tmp_path: Path) -> None:
    ids = {most: published(tmp_path / str(most), PARTED, most) for most in (16, 24, 1000)}
    assert len(set(ids.values())) == 3
    for most, name in ids.items():
        manifest = read_manifest(Store(tmp_path / str(most)), TENANT, name)
        told = read_json(Store(tmp_path / str(most)).generation(TENANT, name) / "manifest.json").get("parts")
        assert (told is None) == (most == 1000), "a generation of one part has the manifest that it always had"
        assert manifest.chunks == sum(part.chunks for part in manifest.parts) or not told
        assert manifest.vector_count == sum(part.vectors for part in manifest.parts) or not told


@given(PAGES, st.lists(st.integers(0, 200), max_size=5))
def test_the_digest_of_a_table_does_not_depend_on_its_chunks(pages: list[Page], cuts: list[int]) -> None:
    table = GENERATION_CHUNKS.table([row for page in pages for row in rows_of(page)])
    borders = sorted({0, len(table), *(cut for cut in cuts if cut < len(table))})
    chunked = pa.concat_tables([table.slice(first, last - first) for first, last in pairwise(borders)])
    assert values_digest(chunked) == values_digest(table)
