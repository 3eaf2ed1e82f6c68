"""The tables of queries over sets hold what their reader may see, all of it, and not a value that tells of the rest."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from brute_force import Judge, pages_told
from built_wiki import Built, tables_of
from partial_wikis import received
from restricted_wiki import Wiki, restricted_wiki, some_principal
from sharing_wiki import sharing_wiki

from rag_serving.ask import Pipeline


def linked(wiki: Wiki, dice: random.Random) -> Wiki:
    """The wiki whose pages link to others by title and by address, to hidden ones, too."""
    for found in wiki.envelopes.values():
        for one in found:
            by_title, by_address = dice.choice(found), dice.choice(found)
            body, links = one["body"]["storage"], by_address["_links"]
            page = f'<ri:page ri:content-title="{by_title["title"]}" />'
            address = f"{links['base']}{links['webui']}"
            body["value"] += f'<h2>See</h2><p>As <ac:link>{page}</ac:link> and <a href="{address}">this</a> say.</p>'
    return wiki


@pytest.fixture(scope="module", params=[False, True], ids=["of their own", "of others"])
def whole(
    request: pytest.FixtureRequest, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Wiki, Pipeline]]:
    """A wiki whose pages show text of their own, or of others, and all of it published."""
    made = sharing_wiki(200, seed + 1000) if request.param else restricted_wiki(300, seed + 1000)
    wiki = linked(made, random.Random(f"sets {seed} {request.param}"))
    with closing(received(tmp_path_factory.mktemp("whole"), wiki)) as pipeline:
        yield wiki, pipeline


@pytest.mark.parametrize("number", [0, *(pytest.param(number, marks=pytest.mark.nightly) for number in (1, 2))])
def test_hidden_pages_change_no_value_of_the_tables(
    tmp_path: Path, whole: tuple[Wiki, Pipeline], seed: int, number: int
) -> None:
    wiki, pipeline = whole
    who = some_principal(random.Random(f"reader of sets {seed} {number}"))
    with closing(received(tmp_path, wiki.without(Judge(wiki).unreadable(who)))) as rest:
        got, wanted = tables_of(pipeline, who), tables_of(rest, who)
    assert got.pages.to_pylist() == wanted.pages.to_pylist(), who
    assert got.texts.to_pylist() == wanted.texts.to_pylist(), who
    links = [link for page in got.pages["links"].to_pylist() for link in page]
    assert {link["page_id"] is None for link in links} == {True, False}, "both are tried"


def test_a_reader_has_every_page_that_may_be_read_and_no_word_of_another(synthetic: Built, seed: int) -> None:
    dice, hidden = random.Random(f"pages of sets {seed}"), 0
    for _ in range(40):
        who = some_principal(dice)
        tables = tables_of(synthetic.pipeline, who)
        readable = {one for one in synthetic.judge.page_ids if synthetic.judge.may_read(who, one)}
        hidden += len(synthetic.judge.page_ids) - len(readable)
        archived = {one for one in readable if synthetic.judge.envelope(one)["status"] != "current"}
        assert set(tables.pages["page_id"].to_pylist()) == readable - archived
        rows = [*tables.pages.to_pylist(), *tables.texts.to_pylist()]
        assert pages_told(rows) <= readable, who
    assert hidden
