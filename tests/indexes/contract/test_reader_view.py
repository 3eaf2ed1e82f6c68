"""What every index backend must hold: a view returns what its reader may see, and refuses all else."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.constants import configured
from support.index_backends import BACKENDS, PARTS, REMOTE, Backends
from support.synthetic import MODEL, TENANT, WORDS, chunk_row, clustered_vectors

from rag_assets.publishing.build import build_generation
from rag_serving.access.principals import Principal
from rag_serving.artifacts.schema import GENERATION_CHUNKS
from rag_serving.artifacts.store import Store
from rag_serving.indexes.view import HiddenRowError, ReaderView
from rag_serving.query.parsing import read_query
from rag_serving.records.queries import Filters

READERS = ("everyone", "group:staff", "group:staff&group:board", "user:ann|group:board", "nobody")
WHO = {
    "anybody": Principal(TENANT),
    "staff": Principal(TENANT, None, frozenset({"staff"})),
    "ann": Principal(TENANT, "ann", frozenset({"staff"})),
    "board": Principal(TENANT, None, frozenset({"staff", "board"})),
    "another tenant": Principal("other", "ann", frozenset({"staff", "board"})),
}
MAY_READ: Mapping[str, frozenset[str]] = {
    "anybody": frozenset(READERS[:1]),
    "staff": frozenset(READERS[:2]),
    "ann": frozenset({*READERS[:2], READERS[3]}),
    "board": frozenset(READERS[:4]),
    "another tenant": frozenset(),
}
COUNT = 60
TERMS = dict.fromkeys(WORDS[:6], 1.0)

OpenView = Callable[[str], ReaderView]


def rows() -> list[dict[str, Any]]:
    """Pages of four chunks, each chunk with a word of its own, its readers by turns."""
    random = np.random.default_rng(3)
    return [
        chunk_row(
            f"{number // 4}",
            number % 4,
            f"marker{number} " + " ".join(random.choice(WORDS, 8)),
            readers=READERS[number % len(READERS)],
            space=f"S{number % len(READERS)}",
            labels=[f"l{number % len(READERS)}"],
            places=[place(number, READERS[(number + shift) % len(READERS)], shift) for shift in range(2)],
        )
        for number in range(COUNT)
    ]


def place(number: int, readers: str, shift: int) -> dict[str, Any]:
    """Where a chunk's text stands as well: on the page `twin`, whatever the readers of the chunk."""
    index = 2 * number + shift
    return {
        "chunk_id": f"twin:3:{index}",
        "space": f"T{number % 7}",
        "title": "Twin",
        "heading": f"Twin → Part {index}",
        "url": f"https://wiki.example/twin#{index}",
        "labels": [f"t{index % 3}"],
        "readers": readers,
        "source": "other",
        "kind": "comments",
        "section_id": f"twin:3:s{index}",
    }


@pytest.fixture(scope="module", params=["disk", "windows", "parts", *BACKENDS[1:]])
def open_view(
    request: pytest.FixtureRequest, backends: Backends, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OpenView]:
    """A generation; beside that on disk with one vector for each chunk, its chunks have up to three each. What a
    database is given is stored in parts."""
    home, name = tmp_path_factory.mktemp("view"), request.param
    backend, parts = backends.get("disk" if name == "windows" else name), PARTS if name in REMOTE else {}
    counts = [1 if name == "disk" else 1 + number % 3 for number in range(COUNT)]
    vectors = clustered_vectors(sum(counts), dimension=8)
    keys = [[f"{number}.{window}" for window in range(count)] for number, count in enumerate(counts)]
    table = GENERATION_CHUNKS.table([{**row, "vector_keys": own} for row, own in zip(rows(), keys, strict=True)])
    config = configured({"home": str(home), "tenants": {TENANT: {}}, **parts, **backend.settings(home)})
    built = build_generation(Store(home), TENANT, table, vectors, config, MODEL)
    assert bool(built.manifest.parts) == (name in ("parts", *REMOTE))
    built.close()
    backend.publish(config, TENANT, built.id)
    with backend.opened(config, TENANT, built.id) as generation:
        yield lambda who: generation.for_reader(WHO[who])


@pytest.fixture(params=list(WHO))
def who(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def ids(who: str, visible: bool = True) -> set[str]:
    """The ids of the chunks that a reader may see, or of the others."""
    return {str(row["chunk_id"]) for row in rows() if (row["readers"] in MAY_READ[who]) is visible}


def number(chunk_id: str) -> int:
    page, _, index = chunk_id.split(":")
    return int(page) * 4 + int(index)


def test_searches_find_all_that_may_be_seen_and_nothing_else(open_view: OpenView, who: str) -> None:
    view, vector = open_view(who), clustered_vectors(1, dimension=8)[0]
    dense = view.chunk_ids([hit.row for hit in view.dense(vector, COUNT)])
    assert set(dense) == ids(who)
    assert len(view) == len(ids(who))
    scores = view.lexical_scores(TERMS)
    lexical = view.chunk_ids([hit.row for hit in view.lexical(TERMS, COUNT)])
    assert set(lexical) <= ids(who)
    assert set(view.chunk_ids(np.flatnonzero(scores).tolist())) == set(lexical)


def test_a_filter_matches_only_what_may_be_seen(open_view: OpenView, who: str) -> None:
    view = open_view(who)
    for place, readers in enumerate(READERS):
        rows = np.flatnonzero(view.matching(Filters(space=(f"S{place}",)))).tolist()
        assert bool(rows) is (readers in MAY_READ[who])
        assert set(view.chunk_ids(rows)) <= ids(who)


def test_words_and_names_are_those_of_what_may_be_seen(open_view: OpenView, who: str) -> None:
    view = open_view(who)
    seen = ids(who)
    for row in rows():
        term = next(iter(read_query(row["text"].split()[0]).terms))
        assert view.frequency(term) == (row["chunk_id"] in seen)
        assert view.holding(row["text"]).size == (row["chunk_id"] in seen)
    spaces = {name for name in view.names.spaces.values() if name.startswith("S")}
    assert spaces == {f"S{number(one) % len(READERS)}" for one in seen}


def test_a_sample_is_of_what_may_be_seen(open_view: OpenView, who: str) -> None:
    view = open_view(who)
    for most in (1, 7, COUNT):
        sampled = view.chunk_ids(view.sample(most).tolist())
        assert set(sampled) <= ids(who)
        assert min(1, len(view)) <= len(sampled) <= most
    assert set(view.chunk_ids(view.sample(COUNT).tolist())) == ids(who)


def test_a_chunk_that_is_hidden_is_not_there(open_view: OpenView, who: str) -> None:
    view = open_view(who)
    assert {one for one in ids(who) | ids(who, visible=False) if view.row_of(one) is not None} == ids(who)
    everything = open_view("board")
    for chunk in everything.chunks([hit.row for hit in everything.lexical(TERMS, COUNT)]):
        for direction in (-1, 1):
            beside = view.beside(chunk, direction)
            assert beside is None or beside.chunk_id in ids(who)
    for page in range(COUNT // 4):
        text = view.page_text(f"{page}")
        markers = {f"{page}:1:{index}" for index in range(4) if f"marker{page * 4 + index} " in text}
        assert markers == {one for one in ids(who) if one.startswith(f"{page}:")}
        assert view.has_page(f"{page}") is bool(markers)
        assert view.chunk_ids(view.page_rows(f"{page}").tolist()) == sorted(markers)


def test_what_was_dropped_from_a_page_is_told_where_the_place_and_the_kept_copy_may_be_read(
    open_view: OpenView, who: str
) -> None:
    view = open_view(who)
    expected = [
        (place["chunk_id"], row["chunk_id"])
        for row in rows()
        for place in row["places"]
        if row["readers"] in MAY_READ[who] and place["readers"] in MAY_READ[who]
    ]
    dropped = view.duplicates_of_page("twin")
    assert [(one.chunk_id, view.chunk_ids([one.kept])[0]) for one in dropped] == expected
    assert all((one.version, one.title, one.source, one.kind) == (3, "Twin", "other", "comments") for one in dropped)
    assert [one.heading for one in dropped] == [f"Twin → Part {one.position}" for one in dropped]
    assert view.duplicates_of_page("twi") == view.duplicates_of_page("nowhere") == view.duplicates_of_page("") == []


def test_facets_count_the_pages_that_may_be_seen(open_view: OpenView, who: str) -> None:
    view, pages = open_view(who), defaultdict[tuple[str, str], set[str]](set)
    for row in rows():
        for one in [row, *row["places"]] if row["readers"] in MAY_READ[who] else []:
            if one["readers"] not in MAY_READ[who]:
                continue
            page_id = one["chunk_id"].split(":")[0]
            pages["spaces", one["space"]].add(page_id)
            pages["sources", one["source"]].add(page_id)
            pages["kinds", one["kind"]].add(page_id)
            for label in one["labels"]:
                pages["labels", label].add(page_id)
    facets = view.facets()
    told = {(facet, name): count for facet, counts in vars(facets).items() for name, count in counts.items()}
    assert told == {key: len(ids) for key, ids in pages.items()}
    for counts in vars(facets).values():
        assert list(counts.values()) == sorted(counts.values(), reverse=True)


def test_filters_by_source_and_kind_match_what_may_be_seen(open_view: OpenView, who: str) -> None:
    view = open_view(who)
    for filters in (Filters(source=("eng",)), Filters(kind=("page", "document"))):
        assert set(view.chunk_ids(np.flatnonzero(view.matching(filters)).tolist())) == ids(who)
    other = view.matching(Filters(source=("other",), kind=("comments",)))
    kept = {row["chunk_id"] for row in rows() if {place["readers"] for place in row["places"]} & MAY_READ[who]}
    assert set(view.chunk_ids(np.flatnonzero(other).tolist())) == kept & ids(who)
    assert not view.matching(Filters(source=("none",))).any()


def test_the_rows_of_a_page_are_in_its_order(open_view: OpenView, who: str) -> None:
    view = open_view(who)
    for page in range(COUNT // 4):
        assert view.chunk_ids(view.page_rows(f"{page}").tolist()) == sorted(
            one for one in ids(who) if one.startswith(f"{page}:")
        )
    assert not len(view.page_rows("twin"))


BY_ROWS: Mapping[str, Callable[[ReaderView, list[int]], object]] = {
    "chunks": lambda view, rows: view.chunks(rows),
    "chunk_ids": lambda view, rows: view.chunk_ids(rows),
    "indexed_text": lambda view, rows: view.indexed_text(rows[0]),
    "vectors": lambda view, rows: view.vectors(rows),
    "similarities": lambda view, rows: view.similarities(clustered_vectors(1, dimension=8)[0], np.array(rows)),
    "page_means": lambda view, rows: view.page_means(np.zeros(COUNT, np.float32), np.array(rows)),
    "pages": lambda view, rows: view.pages(np.array(rows)),
    "parents": lambda view, rows: view.parents(np.array(rows)),
    "mask": lambda view, rows: view.mask(rows),
    "sentence_evidence": lambda view, rows: view.sentence_evidence(np.zeros(8, np.float32), rows),
    "sentence_similarities": lambda view, rows: view.sentence_similarities(np.zeros(8, np.float32), rows, ["text"]),
    "around": lambda view, rows: view.around(rows[0]),
    "boilerplate": lambda view, rows: view.boilerplate(np.array(rows)),
    "text_hashes": lambda view, rows: view.text_hashes(np.array(rows)),
    "labels": lambda view, rows: view.labels(np.array(rows)),
}


@pytest.mark.parametrize("method", BY_ROWS)
def test_a_hidden_row_is_refused(open_view: OpenView, method: str) -> None:
    """A row of another reader's view is refused as well, unless it is by chance one of what the reader may see."""
    everything, view = open_view("board"), open_view("staff")
    own = {row for one in ids("staff") if (row := view.row_of(one)) is not None}
    rows = {hit.row for hit in everything.dense(clustered_vectors(1, dimension=8)[0], COUNT)} | {-1, COUNT, 1 << 40}
    for row in rows:
        if row in own:
            BY_ROWS[method](view, [row])
        else:
            with pytest.raises(HiddenRowError):
                BY_ROWS[method](view, [row])
    assert len(own) == len(ids("staff"))
    assert rows - own


def test_every_method_that_takes_rows_is_tried() -> None:
    takes_rows = {
        name
        for name, method in vars(ReaderView).items()
        if {"row", "rows"} & getattr(method, "__annotations__", {}).keys() and not name.startswith("_")
    }
    assert takes_rows == BY_ROWS.keys()


READS_PAST_ITS_READER = """
from rag_serving.indexes.view import ReaderView

def stage(view: ReaderView) -> object:
    return view.{what}
"""


PAST_ITS_READER = [
    "_generation",
    "_ReaderView__generation",
    "table",
    "chunks([0], frozenset({'everyone'}))",
    "lexical_scores({}, frozenset())",
]


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the output of mypy about a stage for each of them, in one run that reads the view alone."""
    folder = tmp_path_factory.mktemp("stages")
    for number, what in enumerate(PAST_ITS_READER):
        (folder / f"stage{number}.py").write_text(READS_PAST_ITS_READER.format(what=what), encoding="utf-8")
    root = Path(__file__).parents[3]
    command = [sys.executable, "-m", "mypy", "--follow-imports", "skip", "--config-file", ""]
    read = [root / "rag_serving/indexes/view.py", *sorted(folder.iterdir())]
    checked = subprocess.run([*command, *map(str, read)], capture_output=True, text=True, cwd=root, check=False)
    assert checked.returncode == 1, checked.stdout + checked.stderr
    return checked.stdout


@pytest.mark.parametrize("number", range(len(PAST_ITS_READER)), ids=PAST_ITS_READER)
def test_a_stage_that_reads_past_its_reader_is_no_valid_program(complaints: str, number: int) -> None:
    assert f"stage{number}.py:5: error:" in complaints
