"""Which dense shard holds which page, and what a shard's content is called.

Belongs here: pure decisions over ids. Does not belong here: Chroma (`indexes.chroma`).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence

DIGEST_CHARS = 32


def page_hash(page_id: str) -> int:
    """Return a number that depends on the page id alone, on every machine."""
    return int.from_bytes(hashlib.sha256(page_id.encode()).digest()[:8], "big")


def shard_count(page_ids: Sequence[str], max_chunks: int) -> int:
    """Return the smallest power of two of shards of which none holds more than `max_chunks` chunks.

    `page_ids` names the page of every chunk. A page is never split: once every shard that is too large holds a single
    page, more shards would not help.
    """
    sizes = Counter(page_ids)
    hashes = {page: page_hash(page) for page in sizes}
    count = 1
    while True:
        chunks: Counter[int] = Counter()
        pages: Counter[int] = Counter()
        for page, size in sizes.items():
            shard = hashes[page] % count
            chunks[shard] += size
            pages[shard] += 1
        if all(chunks[shard] <= max_chunks or pages[shard] == 1 for shard in chunks):
            return count
        count *= 2


def shard_name(page_id: str, count: int) -> str:
    """Return the shard of a page among `count`, such as `3-of-8`."""
    return f"{page_hash(page_id) % count}-of-{count}"


def content_digest(header: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    """Digest of a shard's content: the same rows in any order, under the same header, give the same digest."""
    hasher = hashlib.sha256()
    for part in [tuple(header), *sorted(tuple(row) for row in rows)]:
        hasher.update(("\x1f".join(part) + "\x1e").encode())
    return hasher.hexdigest()[:DIGEST_CHARS]
