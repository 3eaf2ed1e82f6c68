from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.cutting import WordTokenizer, page, section_of

from rag_assets.steps.chunks.chunking import ChunkSize, build_chunks
from rag_serving.config.sections import Ingestion
from rag_serving.config.sources import Files, Profiles

BOOK = ChunkSize(aim=75, least=50, most=100, stride=10, keeps_runs=True)


def cut(atoms: list[tuple[str, str]], size: ChunkSize = BOOK) -> list[dict[str, Any]]:
    return build_chunks(section_of(atoms), page(), WordTokenizer(), size).to_pylist()


def items(count: int, kind: str = "list") -> list[tuple[str, str]]:
    return [
        (kind, f"- item {number} has words in it" if kind == "list" else f"| a {number} | b |")
        for number in range(count)
    ]


PROSE = [("paragraph", "Some words that stand before it all and go on for a while. " * 4)]


def test_a_book_has_chunks_of_500_to_1000_tokens_with_100_of_overlap_and_a_wiki_what_ingestion_says() -> None:
    profiles, ingestion = Profiles(), Ingestion()
    assert ChunkSize.of(profiles.book, ingestion) == ChunkSize(750, 500, 1000, 100, keeps_runs=True)
    assert ChunkSize.of(profiles.wiki, ingestion) == ChunkSize.about(250, 75)


def test_a_source_names_another_profile_than_that_of_its_kind() -> None:
    plain = Files(kind="files", tenant="t", path=None)
    assert Profiles().of(plain) == Profiles().wiki
    assert Profiles().of(plain.model_copy(update={"profile": "book"})) == Profiles().book


@given(st.integers(2, 14), st.integers(0, 3), st.integers(0, 3), st.sampled_from(["list", "table"]))
def test_a_list_or_table_that_fits_is_never_cut(count: int, before: int, after: int, kind: str) -> None:
    run = items(count, kind)
    chunks = cut([*(PROSE * before), *run, *(PROSE * after)])
    whole = "\n".join(text for _, text in run)
    assert any(whole in chunk["text"] for chunk in chunks)


def test_a_list_that_does_not_fit_is_cut_between_its_items() -> None:
    chunks = cut(items(60))
    assert len(chunks) > 1
    assert all(chunk["text"].startswith("- item") for chunk in chunks)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=40))
def test_chunks_overlap_by_context_beside_them_and_share_no_character(sizes: list[int]) -> None:
    chunks = cut([("paragraph", " ".join(f"w{number}" for number in range(size)) + ".") for size in sizes])
    for one, other in pairwise(chunks):
        assert one["end"] <= other["start"]
        assert other["text"].startswith(one["context_after"][:20])
        assert one["text"].endswith(other["context_before"][-20:])
