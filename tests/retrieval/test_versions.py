"""Of near-identical sections the newest is found first, or the one of the version that is named."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.wiki import PASSAGES, Passage, configuration, embedder, publish

from rag_serving.access.principals import Principal
from rag_serving.ask import Pipeline

EVERYONE = Principal("acme")
TEXT = "The planner gives up a cycle after {} seconds and keeps the plan that was committed last."
QUERY = "after how many seconds does the planner give up a cycle"


def notes(page: str, seconds: int, title: str, **more: object) -> Passage:
    return Passage(page, "Planner cycle", TEXT.format(seconds), title, **more)  # type: ignore[arg-type]


def pages_of(home: Path, query: str, *passages: Passage) -> list[str]:
    """The pages found for a query, best first, of those that are versions of another."""
    publish(home, [*PASSAGES, *passages])
    pipeline = Pipeline.open(configuration(home), "acme", embedder())
    found = [each.chunk.page_id for each in pipeline.search(EVERYONE, query).results]
    pipeline.close()
    wanted = {passage.page_id for passage in passages}
    return [page for page in found if page in wanted]


VERSIONS = (notes("a", 90, "Notes 5.2"), notes("b", 60, "Notes 5.10"), notes("c", 45, "Notes 5.3"))


def test_the_newest_version_comes_first(tmp_path: Path) -> None:
    assert pages_of(tmp_path, QUERY, *VERSIONS) == ["b", "c", "a"]


@pytest.mark.parametrize(("version", "page"), [("5.2", "a"), ("5.3", "c")])
def test_the_version_that_is_named_comes_first(tmp_path: Path, version: str, page: str) -> None:
    assert pages_of(tmp_path, f"{QUERY} in {version}", *VERSIONS)[0] == page


def test_without_versions_the_later_date_counts(tmp_path: Path) -> None:
    old = notes("a", 60, "Planner", space="DOCS", updated_at=datetime(2016, 1, 1, tzinfo=UTC))
    new = notes("b", 45, "Planner", space="DOCS", updated_at=datetime(2025, 1, 1, tzinfo=UTC))
    assert pages_of(tmp_path / "one", QUERY, old, new) == ["b", "a"]
    assert pages_of(tmp_path / "two", QUERY, new, old) == ["b", "a"]


def test_a_page_that_is_marked_comes_after_one_that_is_not(tmp_path: Path) -> None:
    marked = notes("a", 60, "Policy 2024", labels=("deprecated",))
    current = notes("b", 45, "Policy", updated_at=datetime(2020, 1, 1, tzinfo=UTC))
    assert pages_of(tmp_path, QUERY, marked, current) == ["b", "a"]


def test_the_number_of_a_space_is_a_version(tmp_path: Path) -> None:
    older, newer = (notes(f"p{number}", number, "Planner", space=f"DOCS-{number}") for number in (24, 39))
    assert pages_of(tmp_path / "one", QUERY, older, newer) == ["p39", "p24"]
    assert pages_of(tmp_path / "two", f"{QUERY} in 2.4", older, newer) == ["p24", "p39"]


def test_sections_that_say_other_things_stay_where_they_are(tmp_path: Path) -> None:
    old = notes("a", 60, "Notes 5.2")
    other = Passage("b", "Planner cycle", "A cycle is what the planner does: it reads the calls.", "Notes 5.3")
    assert pages_of(tmp_path, QUERY, old, other) == ["a", "b"]


def test_of_a_documentation_the_last_release_comes_first_and_a_version_that_is_named_stands_alone(
    tmp_path: Path,
) -> None:
    told = {"a": "version 1.0", "b": "version 2.0", "n": "unreleased version next"}
    texts = {"a": "The planner runs every 90 seconds, and so on.", "b": "It runs: 60 seconds.", "n": TEXT.format(45)}
    docs = [Passage(page, "Planner cycle", texts[page], f"Notes ({version})") for page, version in told.items()]
    query = "planner runs seconds"
    assert pages_of(tmp_path / "last", query, *docs)[0] == "b"
    assert pages_of(tmp_path / "old", f"{query} in version 1.0", *docs) == ["a"]
    assert pages_of(tmp_path / "next", f"{query} in the next version", *docs) == ["n"]
