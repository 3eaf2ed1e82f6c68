"""Small made-up tenants: chunk tables and clustered unit vectors, the same for the same seed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rag_serving.artifacts.schema import GENERATION_CHUNKS
from rag_serving.config.loading import Config
from support.constants import configured

EVERYONE = frozenset({"everyone"})
MODEL = "synthetic/clusters@1"
TENANT = "acme"
_NOUNS = """
crane berth vessel manifest tide gauge customs pallet forklift schedule quay ballast pilot tug harbour container seal
stowage bollard lock dredger anchor ferry cargo hold mast radar beacon channel wharf
"""
WORDS = _NOUNS.split()


def clustered_vectors(count: int, dimension: int = 32, seed: int = 0) -> NDArray[np.float32]:
    """Unit vectors [count, dimension] around shared centres, as embeddings of real text lie."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(max(3, count // 20), dimension))
    vectors = centres[random.integers(0, len(centres), count)] + 0.4 * random.normal(size=(count, dimension))
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)


def chunk_row(page: str, index: int, text: str, **fields: Any) -> dict[str, Any]:
    """One row of GENERATION_CHUNKS."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:32]
    version = fields.get("version", 1)
    return {
        "chunk_id": f"{page}:{version}:{index}",
        "page_id": page,
        "version": version,
        "chunk_idx": index,
        "section_id": f"{page}:{version}:s0",
        "space": "ENG",
        "title": f"Page {page}",
        "heading_path": [f"Page {page}", "Section"],
        "anchor": "section",
        "url": f"https://wiki.example/{page}#section",
        "text": text,
        "start": 0,
        "end": len(text),
        "context_before": "",
        "context_after": "",
        "token_count": len(text.split()),
        "content_type": "paragraph",
        "labels": [],
        "readers": "everyone",
        "is_boilerplate": False,
        "updated_at": datetime(2024, 5, 1, tzinfo=UTC),
        "text_hash": digest,
        "source": "eng",
        "kind": "page",
        "places": [],
        "prefix": f"Page {page}",
        "lexical_prefix": f"Page {page}",
        "parent_id": "",
        "structure": "",
        "vector_keys": [f"{MODEL}:{digest}"],
        "shard": "",
    } | fields


def chunk_table(count: int, seed: int = 0, per_page: int = 4, readers: Sequence[str] = ("everyone",)) -> pa.Table:
    """`count` chunks on pages of `per_page` each; reader classes go round by page."""
    random = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        page, index = divmod(number, per_page)
        text = f"{' '.join(random.choice(WORDS, 12))} number{number} seed{seed}"
        rows.append(chunk_row(f"{page}", index, text, readers=readers[page % len(readers)]))
    return GENERATION_CHUNKS.table(rows)


def config_for(home: Path, **indexing: Any) -> Config:
    """A configuration of one tenant without sources."""
    return configured({"home": str(home), "tenants": {TENANT: {}}, "indexing": indexing})


def folder_bytes(folder: Path) -> dict[str, str]:
    """Digest of every file below a folder."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
