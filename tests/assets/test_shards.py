from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from rag_assets.publishing.arrange import content_digest, page_hash, shard_count, shard_name

PAGES = st.lists(st.sampled_from([str(number) for number in range(60)]), max_size=300)


@given(PAGES, st.integers(1, 60))
def test_no_shard_is_too_large_and_no_page_is_split(pages: list[str], most: int) -> None:
    count = shard_count(pages, most)
    sizes = Counter(shard_name(page, count) for page in pages)
    for name, size in sizes.items():
        here = {page for page in pages if shard_name(page, count) == name}
        assert size <= most or len(here) == 1
    assert count.bit_count() == 1


@given(PAGES, st.integers(1, 60))
def test_half_as_many_shards_would_not_do(pages: list[str], most: int) -> None:
    count = shard_count(pages, most)
    if count > 1:
        sizes = Counter(shard_name(page, count // 2) for page in pages)
        assert max(sizes.values()) > most


def test_a_page_keeps_its_shard_on_every_machine() -> None:
    assert page_hash("12345") == 0x5994471ABB01112A  # the first 8 bytes of `printf 12345 | sha256sum`
    assert shard_name("12345", 8) == "2-of-8"


def test_a_page_larger_than_a_shard_does_not_split_for_ever() -> None:
    assert shard_count(["big"] * 100, 16) == 1


def test_a_digest_is_of_the_content_and_not_of_its_order() -> None:
    rows = [("1:1:0", "k1", "everyone"), ("2:1:0", "k2", "group:ops")]
    digest = content_digest(["model"], rows)
    assert digest == content_digest(["model"], rows[::-1])
    assert digest != content_digest(["other"], rows)
    for changed in [("1:2:0", "k1", "everyone"), ("1:1:0", "k9", "everyone"), ("1:1:0", "k1", "group:ops")]:
        assert digest != content_digest(["model"], [changed, rows[1]])
