"""Where links land: the id of each heading."""

from __future__ import annotations

import pytest

from rag_assets.steps.sections.anchors import Anchors, HeadingAnchor


@pytest.mark.parametrize(
    ("title", "heading", "anchor"),
    [
        ("Flink Bylaws", "Approvals", "FlinkBylaws-Approvals"),
        (
            "Kafka 0.9 Consumer Rewrite Design",
            "Failure detection protocol",
            "Kafka0.9ConsumerRewriteDesign-Failuredetectionprotocol",
        ),
        ("KIP-1 - Remove acks", "Plan, A and B", "KIP-1-Removeacks-Plan,AandB"),
        ("0.8.0 Producer Example", "Notes", "id-0.8.0ProducerExample-Notes"),
        ("Übersicht", "Ziele", "Übersicht-Ziele"),
        ("(Draft)", "x", "id-(Draft)-x"),
    ],
)
def test_data_center_joins_title_and_heading_without_white_space(title: str, heading: str, anchor: str) -> None:
    assert Anchors(title, "datacenter").heading(heading) == HeadingAnchor(anchor, "datacenter")


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [("2.59.0 (Ubuntu 22)", "2.59.0-(Ubuntu-22)"), ("What's  new?", "What's-new?"), ("Ziele & Größe", "Ziele-&-Größe")],
)
def test_cloud_keeps_case_and_punctuation(heading: str, anchor: str) -> None:
    assert Anchors("Any", "cloud").heading(heading) == HeadingAnchor(anchor, "cloud")


@pytest.mark.parametrize("flavor", ["cloud", "datacenter"])
def test_repeated_headings_are_counted(flavor: str) -> None:
    anchors = Anchors("T", flavor)
    base = anchors.heading("Usage").name
    rule = f"{flavor}-repeated"
    assert [anchors.heading("Usage") for _ in range(2)] == [
        HeadingAnchor(f"{base}.1", rule),
        HeadingAnchor(f"{base}.2", rule),
    ]


def test_a_heading_that_looks_like_a_counted_one_does_not_take_its_place() -> None:
    anchors = Anchors("T", "cloud")
    names = [anchors.heading(text).name for text in ("A", "A.1", "A", "A")]
    assert len(set(names)) == 4


def test_headings_are_equal_only_with_their_case() -> None:
    anchors = Anchors("T", "cloud")
    assert [anchors.heading(text).name for text in ("Usage", "usage")] == ["Usage", "usage"]


def test_the_top_of_a_page_is_its_title() -> None:
    assert Anchors("My  Page", "cloud").title() == HeadingAnchor("My-Page", "cloud-title")
    assert Anchors("My  Page", "datacenter").title() == HeadingAnchor("MyPage", "datacenter-title")
    assert Anchors("", "cloud").title().name


def test_a_repeated_heading_with_an_anchor_macro_takes_its_name() -> None:
    for flavor, name in (("cloud", "second-usage"), ("datacenter", "T-second-usage")):
        anchors = Anchors("T", flavor)
        assert anchors.heading("Usage", ["first"]).rule == flavor
        assert anchors.heading("Usage", ["second-usage"]) == HeadingAnchor(name, f"{flavor}-macro")


def test_an_unknown_flavor_is_named() -> None:
    with pytest.raises(ValueError, match=r"'wiki'.*cloud, datacenter"):
        Anchors("T", "wiki")
