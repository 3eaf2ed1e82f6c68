"""The four versions of Kafka's documentation in ../shared/data as rows of PAGES: a source and a space each."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from rag_serving.artifacts.schema import PAGES

FOLDER = Path(__file__).parents[3] / "shared" / "data" / "kafka-docs"
RELEASED = {"20": 2018, "24": 2019, "38": 2024, "39": 2025}
_INCLUDE = re.compile(r'<!--#include virtual="([^"]+)"\s*-->')
_GENERATED = "generated"  # stands in the pages that include it


def kafka_pages(version: str) -> pa.Table:
    """The pages of one version; what a page includes stands in it, where the file is there."""
    root = FOLDER / version
    files = [path for path in sorted(root.rglob("*.html")) if _GENERATED not in path.relative_to(root).parts]
    return PAGES.table([_row(root, path, version) for path in files])


def _row(root: Path, path: Path, version: str) -> dict[str, object]:
    name = path.relative_to(root).with_suffix("").as_posix()
    body = _with_includes(path, root)
    return {
        "source": f"kafka-{version}",
        "tenant": "acme",
        "page_id": f"k{version}.{name.replace('/', '.')}",
        "version": 1,
        "space": f"KAFKA-{version}",
        "title": name.rpartition("/")[2].replace("-", " ").capitalize(),
        "url": f"https://kafka.example/{version}/{name}",
        "status": "current",
        "updated_at": datetime(RELEASED[version], 1, 1, tzinfo=UTC),
        "labels": [],
        "ancestors": [],
        "ancestor_titles": [],
        "position": None,
        "readers": "everyone",
        "body": body,
        "body_format": "html",
        "anchor_flavor": "html",
        "content_hash": hashlib.sha256(body.encode()).hexdigest()[:32],
        "original": None,
    }


def _with_includes(path: Path, root: Path) -> str:
    def included(match: re.Match[str]) -> str:
        file = root / match[1]
        return file.read_text(encoding="utf-8") if _GENERATED in match[1] and file.is_file() else ""

    return _INCLUDE.sub(included, path.read_text(encoding="utf-8"))
