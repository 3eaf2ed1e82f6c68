from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rag_serving.access.principals import (
    EVERYONE,
    NOBODY,
    Principal,
    clauses_of,
    intersect_readers,
    reader_class,
    satisfied_classes,
    satisfies,
)

NAMES = st.sampled_from(["user:ann", "user:b|b", "group:ops", "group:a&b", "group:everyone", "user:"])
CLAUSES = st.sets(st.frozensets(NAMES, max_size=3), max_size=4)


def test_no_restriction_at_all_means_everyone_and_an_empty_one_nobody() -> None:
    assert reader_class([]) == EVERYONE
    assert reader_class([[]]) == NOBODY
    assert satisfies(Principal("t"), EVERYONE)
    assert not satisfies(Principal("t", "ann", frozenset({"ops"})), NOBODY)


def test_every_clause_must_name_the_principal() -> None:
    readers = reader_class([["group:staff", "user:ann"], ["group:ops"]])
    assert satisfies(Principal("t", "ann", frozenset({"ops"})), readers)
    assert satisfies(Principal("t", None, frozenset({"ops", "staff"})), readers)
    assert not satisfies(Principal("t", "ann"), readers)


def test_a_class_that_is_empty_or_unknown_is_closed() -> None:
    assert not satisfies(Principal("t", "ann"), "")
    assert not satisfies(Principal("t", "ann"), "secret")


def test_a_group_named_everyone_is_only_a_group() -> None:
    assert not satisfies(Principal("t"), reader_class([["group:everyone"]]))


def test_a_principal_of_another_tenant_reads_nothing_not_even_what_everyone_may() -> None:
    assert satisfied_classes(Principal("t"), "t", frozenset({EVERYONE})) == {EVERYONE}
    assert satisfied_classes(Principal("t", "ann"), "other", frozenset({EVERYONE, "user:ann"})) == frozenset()


@given(CLAUSES)
def test_a_class_name_gives_its_clauses_back(clauses: set[frozenset[str]]) -> None:
    readers = reader_class(clauses)
    assert reader_class(clauses_of(readers)) == readers


@given(CLAUSES, CLAUSES, st.sampled_from(["ann", "b|b", None]), st.frozensets(st.sampled_from(["ops", "a&b"])))
def test_an_intersection_is_read_by_whoever_reads_both(
    first: set[frozenset[str]], second: set[frozenset[str]], user: str | None, groups: frozenset[str]
) -> None:
    principal = Principal("t", user, groups)
    one, other = reader_class(first), reader_class(second)
    assert satisfies(principal, intersect_readers(one, other)) == (
        satisfies(principal, one) and satisfies(principal, other)
    )
    assert (one in satisfied_classes(principal, "t", frozenset({one, other}))) == satisfies(principal, one)
