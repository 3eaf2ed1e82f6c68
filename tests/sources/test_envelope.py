"""One envelope becomes one row, or says why not."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sources.stand_in_site import page

from rag_assets.sources.envelope import EnvelopeError, Origin, exclusion_of, load_envelope, row_of
from rag_serving.access.principals import NOBODY
from rag_serving.artifacts.schema import PAGES

ORIGIN = Origin("eng", "acme")


def without(path: str) -> dict[str, Any]:
    """A page that lacks one field."""
    envelope = page(1)
    *above, last = path.split(".")
    inner = envelope
    for name in above:
        inner = inner[name]
    del inner[last]
    return envelope


def linked(webui: str | None, base: str | None = "https://wiki.example", **more: Any) -> dict[str, Any]:
    links = {"webui": webui, "base": base, **more}
    return {**page(7), "_links": {name: value for name, value in links.items() if value is not None}}


def test_a_row_has_every_column_of_pages() -> None:
    row = row_of(page(1, "Runbooks", parents=[5, 6], labels=["b", "a"]), ORIGIN)
    assert PAGES.table([row]).num_rows == 1
    assert row["readers"] == NOBODY
    assert (row["ancestors"], row["ancestor_titles"], row["labels"]) == (["5", "6"], ["Page 5", "Page 6"], ["a", "b"])
    assert row["updated_at"] == datetime(2026, 3, 1, 10, tzinfo=UTC)


def test_a_prefix_is_on_the_page_and_its_ancestors_but_not_in_the_address() -> None:
    envelope = {**page(1, parents=[5]), "_links": {"base": "https://wiki.example"}}
    row = row_of(envelope, Origin("eng", "acme", id_prefix="kb."))
    assert (row["page_id"], row["ancestors"]) == ("kb.1", ["kb.5"])
    assert row["url"] == "https://wiki.example/pages/viewpage.action?pageId=1"


@pytest.mark.parametrize(
    ("webui", "base", "flavor"),
    [
        ("/spaces/ENG/pages/7/Title", "https://acme.example/wiki", "cloud"),
        ("/display/ENG/Title", "https://acme.example/wiki", "datacenter"),
        ("/pages/viewpage.action?pageId=7", "https://acme.example", "datacenter"),
        ("/display/ENG/Title", "https://acme.atlassian.net/wiki", "cloud"),
        (None, "https://acme.example", "datacenter"),
    ],
)
def test_the_flavor_of_anchors_is_read_from_the_address(webui: str | None, base: str, flavor: str) -> None:
    assert row_of(linked(webui, base), ORIGIN)["anchor_flavor"] == flavor
    assert row_of(linked(webui, base), Origin("eng", "acme", flavor="cloud"))["anchor_flavor"] == "cloud"


def test_an_address_is_built_where_it_is_not_told() -> None:
    cloud = Origin("eng", "acme", "cloud", base_url="https://acme.example/wiki/")
    assert row_of(linked(None, None), cloud)["url"] == "https://acme.example/wiki/spaces/ENG/pages/7"
    told_by_self = linked(None, None, self="https://w.example/c/rest/api/content/7")
    assert row_of(told_by_self, ORIGIN)["url"] == "https://w.example/c/pages/viewpage.action?pageId=7"


def test_an_address_carries_no_anchor_and_nothing_unsafe() -> None:
    assert (
        row_of(linked('/display/ENG/A "b" <c>#x'), ORIGIN)["url"]
        == "https://wiki.example/display/ENG/A%20%22b%22%20%3Cc%3E"
    )
    with pytest.raises(EnvelopeError, match="no address"):
        row_of(linked("/x", "javascript:alert(1)//"), ORIGIN)


@pytest.mark.parametrize(
    "path", ["id", "title", "version", "version.number", "space", "space.key", "body", "body.storage", "_links.base"]
)
def test_a_missing_field_is_named(path: str) -> None:
    with pytest.raises(EnvelopeError, match=path.rpartition(".")[2]):
        row_of(without(path), ORIGIN)


@pytest.mark.parametrize(
    "change",
    [
        {"id": ["1"]},
        {"id": "../1"},
        {"id": "1:2"},
        {"id": True},
        {"title": 7},
        {"title": "  "},
        {"version": {"number": "3"}},
        {"version": {"number": 2**40}},
        {"version": {"number": -1}},
        {"version": {"number": 1, "when": "yesterday"}},
        {"version": {"number": 1, "when": "0001-01-01T00:00:00+14:00"}},
        {"space": "ENG"},
        {"body": {"storage": {"value": None}}},
        {"ancestors": {"results": []}},
        {"ancestors": ["1"]},
    ],
)
def test_a_field_of_a_wrong_type_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(EnvelopeError):
        row_of({**page(1), **change}, ORIGIN)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (json.dumps(page(1)).encode()[:200], "not valid JSON"),
        (b"\xff\xfe{\x00}", "not UTF-8"),
        (b"[1, 2]", "JSON list"),
        (b"[" * 200_000, "JSON"),
        (b"<html>", "not valid JSON"),
    ],
)
def test_bytes_that_are_no_envelope_say_what_they_are(content: bytes, reason: str) -> None:
    with pytest.raises(EnvelopeError, match=reason):
        load_envelope(content)


def test_a_byte_order_mark_is_no_fault() -> None:
    assert load_envelope(b'\xef\xbb\xbf{"id": "1"}') == {"id": "1"}


def test_half_a_surrogate_pair_does_not_reach_the_table() -> None:
    row = row_of(page(1, "Half \ud83d", body="<p>\ud83d</p>"), ORIGIN)
    PAGES.table([row])
    assert row["title"] == "Half \ufffd"


def test_only_current_pages_are_indexed() -> None:
    assert exclusion_of(page(1)) is None
    assert exclusion_of(page(1, status="archived")) == "its status is 'archived', not 'current'"
    assert "blogpost" in (exclusion_of(page(1, type="blogpost")) or "")
    with pytest.raises(EnvelopeError, match="status"):
        exclusion_of(without("status"))


def test_private_labels_are_left_out() -> None:
    labels = {"labels": {"results": [{"prefix": "my", "name": "later"}, {"prefix": "global", "name": "kip"}, {}, None]}}
    assert row_of({**page(1), "metadata": labels}, ORIGIN)["labels"] == ["kip"]


def test_the_content_hash_follows_what_sections_are_made_of() -> None:
    hashes = [
        row_of(envelope, ORIGIN)["content_hash"]
        for envelope in (page(1), page(1, "Other"), page(1, body="<p>Other</p>"), linked("/spaces/ENG/pages/1"))
    ]
    assert len(set(hashes)) == 4
    assert row_of(page(1, labels=["x"], parents=[2]), ORIGIN)["content_hash"] == hashes[0]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from([*page(1), "metadata"]), json_values)
def test_whatever_stands_in_a_field_gives_a_row_or_a_reason(name: str, value: Any) -> None:
    envelope = {**page(1, parents=[3]), name: value}
    try:
        row = row_of(envelope, ORIGIN)
    except EnvelopeError:
        return
    assert PAGES.table([row]).num_rows == 1


@pytest.mark.parametrize(
    ("by", "author"),
    [
        ({"type": "known", "displayName": "Ann Lee", "username": "ann"}, "Ann Lee"),
        ({"username": "ann"}, "ann"),
        ({"type": "anonymous", "displayName": " "}, None),
        (None, None),
        ("ann", None),
    ],
)
def test_who_made_the_version_is_told_by_name(by: object, author: str | None) -> None:
    envelope = page(1)
    envelope["version"]["by"] = by
    assert row_of(envelope, ORIGIN)["author"] == author
