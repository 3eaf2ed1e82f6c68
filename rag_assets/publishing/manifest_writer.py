"""The manifest of a generation is made and signed when everything else of it is on disk.

Belongs here: making, signing and writing it. Does not belong here: its fields and reading it
(`rag_serving.artifacts.manifest`).
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from rag_serving.artifacts.contents import KnownDigests, Stamp, is_settled, stamp_of
from rag_serving.artifacts.manifest import FILE, KEY_PURPOSE, FileFacts, Manifest, file_facts, id_of
from rag_serving.artifacts.secret import FIELD, canonical, signature_of
from rag_serving.artifacts.store import Store, write_json

_THREADS = 4


def create_manifest(**fields: Any) -> Manifest:
    """Return a manifest of these fields; its id is the first 16 hex digits of the SHA-256 of its identifying ones."""
    draft = Manifest(id="", **fields)
    return draft.model_copy(update={"id": id_of(draft)})


def signed(manifest: Manifest, home: Path) -> Manifest:
    """Return the manifest with the signature of an installation: HMAC-SHA256 of its canonical form (RFC 2104).

    Raises:
        SecretError: the installation's secret cannot be used.
    """
    content = manifest.model_dump(mode="json")
    return manifest.model_copy(update={FIELD: signature_of(content, home, KEY_PURPOSE)})


class StampedFacts(NamedTuple):
    """Size and digest of a file. `stamp`: what the file was before and after it was read, None if it may have
    changed without notice."""

    facts: FileFacts
    stamp: Stamp | None


def folder_facts(folder: Path) -> dict[str, FileFacts]:
    """Return size and digest of every file below a folder, by relative path."""
    return {name: one.facts for name, one in stamped_facts(folder).items()}


def stamped_facts(folder: Path) -> dict[str, StampedFacts]:
    """Return the same with the stamps of the files."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    with ThreadPoolExecutor(_THREADS) as pool:
        facts = list(pool.map(_stamped, files))
    return {path.relative_to(folder).as_posix(): one for path, one in zip(files, facts, strict=True)}


def _stamped(path: Path) -> StampedFacts:
    before = stamp_of(path)
    settled = before is not None and is_settled(before)
    facts = file_facts(path)
    return StampedFacts(facts, before if settled and stamp_of(path) == before else None)


def remember_digests(store: Store, tenant: str, folder: Path, files: Mapping[str, StampedFacts]) -> None:
    """Note the digests of files that lie in a folder now, so that they are not read again while they stay the same."""
    known, where = KnownDigests(store, tenant), folder.relative_to(store.tenant(tenant)).as_posix()
    for name, one in files.items():
        if one.stamp:
            known.add(f"{where}/{name}", one.stamp, one.facts.sha256)
    known.save()


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest: the last file of a generation."""
    write_json(folder / FILE, manifest.model_dump(mode="json"))


def pages_digest(versions: Mapping[str, int]) -> str:
    """Digest of page ids and their versions."""
    return sha256(canonical(sorted(versions.items()))).hexdigest()[:32]
