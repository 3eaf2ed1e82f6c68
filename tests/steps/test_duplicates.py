"""Which chunk is dropped for which: the newest is kept, nothing that differs is lost, nobody loses a text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import chain, combinations
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.steps.dedup import (
    EXACT,
    effectiveness,
    find_duplicates,
    fingerprints,
    jaccard,
    literals_of,
    scope_of,
    shingles_of,
    without_duplicates,
    words_of,
)
from rag_serving.access.principals import NOBODY, Principal, may_all_read, reader_class, satisfies
from rag_serving.artifacts.schema import CHUNKS

LONG = " ".join(
    f"{one}{two}" for one in "bdfgklmnpr" for two in ("al", "en", "ir", "os", "um", "ax", "ev", "il", "or", "ut")
)
NEAR = LONG.replace("fen", "paragraph")
FAR = " ".join(LONG.split()[::-1])
NAMES = ["group:ops", "group:hr", "user:ann", "user:bob"]
CLASSES = st.lists(st.lists(st.sampled_from(NAMES), max_size=3), max_size=3).map(reader_class)


def row(page: str, text: str = LONG, day: int = 1, **fields: Any) -> dict[str, Any]:
    empty: dict[str, Any] = dict.fromkeys(CHUNKS.columns.names)
    version, index = fields.get("version", 1), fields.get("chunk_idx", 0)
    usual = {
        "chunk_id": f"{page}:{version}:{index}",
        "page_id": page,
        "version": version,
        "chunk_idx": index,
        "space": "ENG",
        "title": "Plan",
        "heading_path": ["Plan", "Making"],
        "url": f"https://wiki.example/{page}#making",
        "text": text,
        "labels": [],
        "readers": "everyone",
        "updated_at": datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day),
    }
    return empty | usual | fields


def table(*rows: dict[str, Any]) -> pa.Table:
    chunks = CHUNKS.table(list(rows)).append_column("source", pa.array(["eng"] * len(rows)))
    return chunks.append_column("kind", pa.array(["page"] * len(rows)))


def dropped(*rows: dict[str, Any], threshold: float = 0.92) -> dict[str, str]:
    chunks = table(*rows)
    found = find_duplicates(chunks, fingerprints(chunks["text"].to_pylist()), threshold)
    return dict(zip(found["dropped_id"].to_pylist(), found["kept_id"].to_pylist(), strict=True))


def test_the_newest_of_near_duplicates_is_kept() -> None:
    assert dropped(row("1", NEAR, day=1), row("2", LONG, day=2), row("3", FAR, day=3)) == {"1:1:0": "2:1:0"}


def test_at_a_threshold_of_one_only_the_same_words_are_duplicates_and_no_signature_is_made() -> None:
    chunks = table(row("1", NEAR, day=1), row("2", LONG, day=2), row("3", LONG.upper(), day=1))
    found = find_duplicates(chunks, fingerprints(chunks["text"].to_pylist(), signed=False), EXACT)
    assert found["dropped_id"].to_pylist() == ["3:1:0"]


def test_at_the_same_time_the_higher_version_is_kept_and_then_the_smaller_id() -> None:
    assert dropped(row("1"), row("2", version=2)) == {"1:1:0": "2:2:0"}
    assert dropped(row("2"), row("1"), row("1", chunk_idx=10), row("1", chunk_idx=9)) == {
        "2:1:0": "1:1:0",
        "1:1:9": "1:1:0",
        "1:1:10": "1:1:0",
    }


def test_included_text_is_dropped_for_the_page_that_it_comes_from() -> None:
    assert dropped(row("1", day=9, included_from="2"), row("2", day=1)) == {"1:1:0": "2:1:0"}
    assert dropped(row("1", day=9, included_from="2"), row("2", day=1, readers="group:hr")) == {}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (f"```\n{LONG}\nkey: Value\n```", f"```\n{LONG}\nkey: value\n```"),
        (f"```\n{LONG}\nf(x, y)\n```", f"```\n{LONG}\nf(x y)\n```"),
        (f"{LONG}\nkey: Value", f"{LONG}\nkey: value"),  # a piece out of the middle of long code
        (f"{LONG}\nkey: Value\n```", f"{LONG}\nkey: value\n```"),
    ],
)
def test_code_that_differs_in_a_letters_case_or_a_mark_is_another_thing(one: str, other: str) -> None:
    assert words_of(one) == words_of(other)
    assert dropped(row("1", one, content_type="code"), row("2", other, content_type="code")) == {}
    assert len(dropped(row("1", one, content_type="code"), row("2", one, content_type="code"))) == 1


def test_a_name_in_another_case_is_another_thing_and_a_sentence_in_another_case_is_not() -> None:
    assert dropped(row("1", f"{LONG} log.dirs"), row("2", f"{LONG} LOG.DIRS")) == {}
    assert len(dropped(row("1", f"{LONG} Logs kept"), row("2", f"{LONG} logs KEPT"))) == 1


def test_in_a_chain_each_is_dropped_for_one_that_is_kept_and_like_it() -> None:
    chain_of = [LONG, NEAR, NEAR.replace("ril", "other"), NEAR.replace("ril", "other").replace("mum", "third")]
    found = dropped(*(row(str(day), text, day=day) for day, text in enumerate(chain_of)))
    assert found == {"2:1:0": "3:1:0", "0:1:0": "1:1:0"}


def test_only_a_text_with_the_same_numbers_and_turning_words_is_dropped() -> None:
    for one, other in (("waits 5 minutes", "waits 9 minutes"), ("must sign", "must not sign")):
        assert dropped(row("1", f"{LONG} He {one}."), row("2", f"{LONG} He {other}.", day=2)) == {}
        assert dropped(row("1", f"{LONG} He {one}."), row("2", f"{LONG} He {one}.", day=2)) == {"1:1:0": "2:1:0"}


def test_a_table_in_which_one_value_changed_is_never_dropped() -> None:
    lines = [f"| setting.number.{n} | {n * 7} | how long the worker waits for it |" for n in range(40)]
    changed = [*lines[:20], lines[20].replace("| 140 |", "| 141 |"), *lines[21:]]
    one, other = shingles_of([words_of("\n".join(each)) for each in (lines, changed)]).sets()
    assert jaccard(one, other) > 0.92
    assert dropped(row("1", "\n".join(lines)), row("2", "\n".join(changed), day=2)) == {}


def test_a_short_text_is_dropped_only_under_the_same_headings() -> None:
    short = "Nightly, at two."
    assert dropped(row("1", short), row("2", short, day=2)) == {"1:1:0": "2:1:0"}
    assert dropped(row("1", short), row("2", short, day=2, heading_path=["Plan", "Other"])) == {}
    assert dropped(row("1", short), row("2", short, day=2, title="Backup")) == {}


def test_a_text_without_words_is_no_duplicate() -> None:
    assert dropped(row("1", "…"), row("2", "…")) == {}


def test_who_may_read_only_the_older_copy_keeps_it() -> None:
    secret = "group:hr"
    assert dropped(row("1", day=1), row("2", day=2, readers=secret)) == {}
    assert dropped(row("1", day=1, readers=secret), row("2", day=2)) == {"1:1:0": "2:1:0"}
    assert dropped(row("1"), row("2", day=2, readers=secret), row("3", day=3, readers="user:ann")) == {}


def test_a_copy_goes_to_the_newest_kept_one_that_its_readers_may_read() -> None:
    newest, middle, oldest = row("3", day=3, readers="group:hr"), row("2", day=2), row("1", day=1)
    assert dropped(oldest, middle, newest) == {"1:1:0": "2:1:0"}


@given(CLASSES, CLASSES)
def test_the_readers_rule_is_implication_over_every_principal(one: str, two: str) -> None:
    subsets = chain.from_iterable(combinations(NAMES, size) for size in range(len(NAMES) + 1))
    for names in subsets:
        for user in [name[5:] for name in names if name.startswith("user:")] or [None]:
            asker = Principal("acme", user, frozenset(n[6:] for n in names if n.startswith("group:")))
            if may_all_read(one, two) and satisfies(asker, one):
                assert satisfies(asker, two)


@given(CLASSES, CLASSES)
def test_the_readers_rule_refuses_only_where_some_set_of_names_loses(one: str, two: str) -> None:
    groups = {name: f"group:{name}" for name in NAMES}  # as groups, all sets of names are possible callers
    renamed = [reader_class([[groups[n] for n in clause] for clause in _clauses(each)]) for each in (one, two)]
    everybody = [
        Principal("acme", None, frozenset(names))
        for size in range(len(NAMES) + 1)
        for names in combinations(NAMES, size)
    ]
    implied = all(satisfies(asker, renamed[1]) for asker in everybody if satisfies(asker, renamed[0]))
    assert may_all_read(*renamed) == implied


def test_what_nobody_may_read_may_go_but_nothing_goes_for_it() -> None:
    assert may_all_read(NOBODY, "group:hr")
    assert not may_all_read("group:hr", NOBODY)


@pytest.mark.parametrize(
    ("other", "scope"),
    [
        ({}, "within_page"),
        ({"version": 2}, "across_versions"),
        ({"page_id": "2"}, "across_versions"),
        ({"page_id": "2", "space": "ENG-2"}, "across_versions"),
        ({"page_id": "2", "space": "OPS"}, "across_spaces"),
    ],
)
def test_scopes(other: dict[str, Any], scope: str) -> None:
    one = {"page_id": "1", "version": 1, "space": "ENG"}
    assert scope_of(one, one | other) == scope


@given(
    st.lists(
        st.tuples(st.sampled_from([LONG, NEAR, FAR, LONG + " 5", "Short."]), st.integers(1, 3), CLASSES),
        min_size=1,
        max_size=8,
    )
)
def test_every_drop_keeps_all_rules(made: list[tuple[str, int, str]]) -> None:
    rows = [row(str(n), text, day=day, readers=readers) for n, (text, day, readers) in enumerate(made)]
    by_id = {each["chunk_id"]: each for each in rows}
    found = dropped(*rows)
    for old, new in ((by_id[one], by_id[two]) for one, two in found.items()):
        assert new["chunk_id"] not in found
        assert (new["updated_at"], -int(new["page_id"])) > (old["updated_at"], -int(old["page_id"]))
        assert literals_of(old["text"]) == literals_of(new["text"])
        assert may_all_read(old["readers"], new["readers"])
        sets = list(shingles_of([words_of(old["text"]), words_of(new["text"])]).sets())
        assert jaccard(*sets) >= 0.92
    assert found == dropped(*rows[::-1])


@given(
    st.lists(
        st.tuples(st.sampled_from([LONG, NEAR, FAR, "Short."]), st.integers(1, 3), CLASSES), min_size=1, max_size=8
    ),
    st.sets(st.sampled_from(["ops", "hr"])),
    st.sampled_from([None, "ann", "bob"]),
)
def test_what_an_asker_sees_dropped_does_not_depend_on_pages_he_may_not_read(
    made: list[tuple[str, int, str]], groups: set[str], user: str | None
) -> None:
    asker = Principal("acme", user, frozenset(groups))
    rows = [row(str(n), text, day=day, readers=readers) for n, (text, day, readers) in enumerate(made)]
    readable = [each for each in rows if satisfies(asker, each["readers"])]
    seen = {each["chunk_id"] for each in readable}
    assert {one: two for one, two in dropped(*rows).items() if one in seen} == dropped(*readable)


def test_the_kept_chunk_remembers_the_places_of_the_dropped() -> None:
    chunks = table(row("1", day=1, space="OPS", readers="group:ops", labels=["old"]), row("2", day=2), row("3", FAR))
    found = find_duplicates(chunks, fingerprints(chunks["text"].to_pylist()), 0.92)
    kept = without_duplicates(chunks, found)
    assert kept["chunk_id"].to_pylist() == ["2:1:0", "3:1:0"]
    assert kept["places"].to_pylist() == [
        [
            {
                "chunk_id": "1:1:0",
                "space": "OPS",
                "title": "Plan",
                "heading": "Plan → Making",
                "url": "https://wiki.example/1#making",
                "labels": ["old"],
                "readers": "group:ops",
                "source": "eng",
                "kind": "page",
                "section_id": None,
            }
        ],
        [],
    ]
    assert [(e.space, e.chunks, e.dropped) for e in effectiveness(chunks, found)] == [
        ("ENG", 2, {}),
        ("OPS", 1, {"across_spaces": 1}),
    ]


def test_an_empty_table_has_no_duplicates() -> None:
    assert dropped() == {}


def _clauses(readers: str) -> frozenset[frozenset[str]]:
    from rag_serving.access.principals import clauses_of

    return clauses_of(readers)
