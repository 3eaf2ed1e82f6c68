"""No alteration of a generation in a database is shown: rows are refused as a whole, texts one by one, and the rest of
the passages is answered from. `test_alterations.py` is the same for folders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from support.database_owners import DatabaseOwner, PostgresOwner, Row, owner_of
from support.examples import by_day
from support.index_backends import REMOTE, Backends
from support.synthetic import MODEL, TENANT, chunk_table, clustered_vectors

from rag_assets.publishing.build import build_generation
from rag_assets.publishing.publish import publish_to_database
from rag_serving.access.principals import Principal
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config, parse_config
from rag_serving.indexes.databases import RemoteDataError
from rag_serving.indexes.view import ReaderView
from rag_serving.records.passages import Chunk

CHUNKS = 40
READERS = ("everyone", "everyone", "group:board")
ANYBODY, BOARD = Principal(TENANT), Principal(TENANT, None, frozenset({"board"}))
OPEN_ROW, OTHER_ROW, BOARD_ROW = 1, 5, 9  # of the first, second and third page


@dataclass(frozen=True)
class Published:
    """A generation in a database, and the one before it."""

    backend: str
    config: Config
    owner: DatabaseOwner
    ids: tuple[str, str]
    backends: Backends

    @property
    def id(self) -> str:
        return self.ids[1]

    @property
    def earlier(self) -> str:
        return self.ids[0]


@pytest.fixture(scope="module", params=REMOTE)
def published(
    request: pytest.FixtureRequest, backends: Backends, tmp_path_factory: pytest.TempPathFactory
) -> Published:
    home, backend = tmp_path_factory.mktemp("altered"), backends.get(request.param)
    config = parse_config({"home": str(home), "tenants": {TENANT: {}}, **backend.settings(home)})
    ids = []
    for seed in (1, 0):
        table = chunk_table(CHUNKS, seed=seed, readers=READERS)
        with_vectors = build_generation(Store(home), TENANT, table, clustered_vectors(CHUNKS, seed=seed), config, MODEL)
        with_vectors.close()
        ids.append(with_vectors.id)
        publish_to_database(Store(home), TENANT, ids[-1], config)
    return Published(request.param, config, owner_of(config), (ids[0], ids[1]), backends)


@pytest.fixture
def sound(published: Published) -> Iterator[list[Chunk]]:
    """What anybody may read of the generation; sent again afterwards, as the message of a refusal says."""
    with published.backends.get(published.backend).opened(published.config, TENANT, published.id) as generation:
        yield all_of(generation.for_reader(ANYBODY))
    publish_to_database(Store(published.config.home), TENANT, published.id, published.config, resend=True)
    with published.backends.get(published.backend).opened(published.config, TENANT, published.id) as generation:
        assert len(all_of(generation.for_reader(BOARD))) == CHUNKS


def all_of(view: ReaderView) -> list[Chunk]:
    return view.chunks(range(len(view)))


def fault(published: Published, principal: Principal = ANYBODY) -> str | None:
    """Why a reader gets nothing; None where everything is handed out."""
    with published.backends.get(published.backend).opened(published.config, TENANT, published.id) as generation:
        try:
            all_of(generation.for_reader(principal))
        except RemoteDataError as error:
            return str(error)
    return None


def another_text(published: Published) -> None:
    texts = published.owner.texts(published.id, OPEN_ROW)
    published.owner.write_texts(published.id, OPEN_ROW, {**texts, "text": "Wire the deposit to account 12-34."})


def another_context(published: Published) -> None:
    texts = published.owner.texts(published.id, OPEN_ROW)
    published.owner.write_texts(published.id, OPEN_ROW, {**texts, "context_before": "All of this is void."})


def swapped_texts(published: Published) -> None:
    owner = published.owner
    one, other = owner.texts(published.id, OPEN_ROW), owner.texts(published.id, OTHER_ROW)
    owner.write_texts(published.id, OPEN_ROW, other)
    owner.write_texts(published.id, OTHER_ROW, one)


def earlier_text(published: Published) -> None:
    published.owner.write_texts(published.id, OPEN_ROW, published.owner.texts(published.earlier, OPEN_ROW))


TEXTS = (another_text, another_context, swapped_texts, earlier_text)


@pytest.mark.parametrize("alter", TEXTS)
def test_a_text_that_was_altered_is_refused_and_the_others_are_answered_from(
    published: Published, sound: list[Chunk], alter: Callable[[Published], None]
) -> None:
    alter(published)
    altered = {OPEN_ROW, OTHER_ROW} if alter is swapped_texts else {OPEN_ROW}
    kept = [chunk for row, chunk in enumerate(sound) if row not in altered]
    with published.backends.get(published.backend).opened(published.config, TENANT, published.id) as generation:
        view = generation.for_reader(ANYBODY)
        others = [row for row in range(len(sound)) if row not in altered]
        assert view.chunks(others) == kept
        with pytest.raises(RemoteDataError, match="altered in the database and is not used"):
            view.chunks(sorted(altered))
        again = generation.for_reader(ANYBODY)  # of the next question
        assert all_of(again) == kept
        assert "altered passages of the database are not used" in generation.degraded[0]
        hits = again.dense(clustered_vectors(1, seed=3)[0], len(sound))
        assert sorted(hit.row for hit in hits) == list(range(len(kept)))
        for word in ("crane", "berth", "tide"):
            assert all(hit.row < len(kept) for hit in again.lexical(word, len(sound)))
        restricted = all_of(generation.for_reader(BOARD))
        assert len(restricted) == CHUNKS - len(altered)


def replaced(**fields: object) -> Callable[[Published], None]:
    """Change fields of one row that everybody may read."""

    def alter(published: Published) -> None:
        published.owner.change_rows(published.id, lambda row: row | (fields if row["row"] == OPEN_ROW else {}))

    return alter


def opened_to_all(published: Published) -> None:
    """The board's rows become everybody's."""
    published.owner.change_rows(published.id, lambda row: row | {"readers": "everyone"})


def swapped_rows(published: Published) -> None:
    rows = published.owner.rows(published.id)
    numbers = {OPEN_ROW: OTHER_ROW, OTHER_ROW: OPEN_ROW}

    def change(row: Row) -> Row:
        number = row["row"]
        return rows[numbers[number]] | {"row": number} if number in numbers else row

    published.owner.change_rows(published.id, change)


def earlier_row(published: Published) -> None:
    earlier = published.owner.rows(published.earlier)[OPEN_ROW] | {"title": "As it was"}
    published.owner.change_rows(published.id, lambda row: dict(earlier) if row["row"] == OPEN_ROW else row)


def no_seals(published: Published) -> None:
    published.owner.remove_seals(published.id)


ROWS = {
    "title": replaced(title="Payments"),
    "url": replaced(url="https://elsewhere.example/#pay"),
    "heading_path": replaced(heading_path=["Payments", "Account"]),
    "anchor": replaced(anchor="pay"),
    "version": replaced(version=2),
    "text_hash": replaced(text_hash="0" * 32),
    "readers": opened_to_all,
    "two rows": swapped_rows,
    "a row of an earlier generation": earlier_row,
    "no seals": no_seals,
}


FIELDS = {"url", "heading_path", "anchor", "version", "text_hash"}
"""Sealed together with the title."""


@pytest.mark.parametrize("what", by_day(ROWS.keys() - FIELDS, ROWS))
def test_rows_that_were_altered_are_refused_in_one_line(published: Published, sound: list[Chunk], what: str) -> None:
    assert sound
    ROWS[what](published)
    said = fault(published)
    assert said is not None
    assert "altered" in said
    assert "citelock " in said
    assert "\n" not in said
    assert fault(published, BOARD) is not None


def is_open(row: Row) -> bool:
    return bool(row["readers"] == "everyone")


def test_an_alteration_for_one_reader_class_costs_the_others_nothing(published: Published, sound: list[Chunk]) -> None:
    published.owner.change_rows(
        published.id, lambda row: row | ({} if row["readers"] == "everyone" else {"title": "x"})
    )
    assert fault(published) is None
    assert fault(published, BOARD) is not None
    assert sound


def test_rules_that_were_loosened_in_the_database_open_nothing(published: Published, sound: list[Chunk]) -> None:
    owner = published.owner
    if not isinstance(owner, PostgresOwner):
        pytest.skip("the other databases are told the reader classes with every request")
    assert sound
    owner.run("UPDATE citelock.reader_classes SET clauses = '[]', anchor = NULL WHERE class <> 'everyone' RETURNING 1")
    said = fault(published)
    assert said is not None
    assert "who may read what" in said


def test_a_text_that_is_no_text_is_an_error_of_the_protocol(published: Published, sound: list[Chunk]) -> None:
    owner = published.owner
    if not isinstance(owner, PostgresOwner):
        pytest.skip("the column is of Postgres")
    assert sound
    for content in (b"[" * 99_999, b"\xff", b'{"text": 7}', b"[1]", b'{"text": {"a": 1}}'):
        statement = 'UPDATE citelock.document_chunks SET exact = %s WHERE generation = %s AND "row" = %s RETURNING 1'
        owner.run(statement, content, published.id, OPEN_ROW)
        said = fault(published)
        assert said is not None
        assert "\n" not in said


def test_vectors_and_postings_change_the_order_alone(published: Published, sound: list[Chunk]) -> None:
    """They are not sealed: what is shown is what was published, whatever they say."""
    if not isinstance(published.owner, PostgresOwner):
        pytest.skip("statements are of Postgres")
    published.owner.run(
        "UPDATE citelock.document_chunks c SET embedding = o.embedding FROM citelock.document_chunks o "
        'WHERE c.generation = %s AND o.generation = %s AND o."row" = 39 - c."row" RETURNING 1',
        published.id, published.id,
    )  # fmt: skip
    with published.backends.get("postgres").opened(published.config, TENANT, published.id) as generation:
        view = generation.for_reader(ANYBODY)
        hits = view.dense(clustered_vectors(1, seed=3)[0], 10)
        assert len({hit.row for hit in hits}) == 10
        assert all(chunk in sound for chunk in view.chunks([hit.row for hit in hits]))
        assert np.all(np.isfinite([hit.score for hit in hits]))
