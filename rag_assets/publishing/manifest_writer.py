"""The manifest of a generation is made when everything else of it stands on disk, and signed.

Belongs here: making, signing and writing it. Does not belong here: its fields and reading it
(`rag_serving.artifacts.manifest`).
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

from rag_serving.artifacts.manifest import FILE, KEY_PURPOSE, FileFacts, Manifest, file_facts, id_of
from rag_serving.artifacts.signatures import FIELD, canonical, signature_of
from rag_serving.artifacts.store import write_json

_THREADS = 4


def create_manifest(**fields: Any) -> Manifest:
    """Return a manifest of these fields; its id is the first 16 hex digits of the SHA-256 of what identifies it."""
    draft = Manifest(id="", **fields)
    return draft.model_copy(update={"id": id_of(draft)})


def signed(manifest: Manifest, home: Path) -> Manifest:
    """Return the manifest with the signature of an installation: HMAC-SHA256 of its canonical form (RFC 2104).

    Raises:
        SecretError: the installation's secret cannot be used.
    """
    content = manifest.model_dump(mode="json")
    return manifest.model_copy(update={FIELD: signature_of(content, home, KEY_PURPOSE)})


def folder_facts(folder: Path) -> dict[str, FileFacts]:
    """Size and digest of every file below a folder, by relative path."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    with ThreadPoolExecutor(_THREADS) as pool:
        facts = list(pool.map(file_facts, files))
    return {path.relative_to(folder).as_posix(): one for path, one in zip(files, facts, strict=True)}


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest: the last file of a generation."""
    write_json(folder / FILE, manifest.model_dump(mode="json"))


def pages_digest(versions: Mapping[str, int]) -> str:
    """Digest of page ids and their versions."""
    return sha256(canonical(sorted(versions.items()))).hexdigest()[:32]
