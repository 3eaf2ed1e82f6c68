"""Objects below a prefix of a bucket (S3 and what speaks its interface), as a tree of files.

Belongs here: listing and reading objects, retries. Does not belong here: what the objects are, credentials: those come
from the environment alone (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL` …).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from rag_assets.sources.base import SourceError
from rag_assets.steps.files.records import FileError

SCHEME = "s3:"
MOST_OBJECTS = 200_000
_RETRIES = 6
_TRIES = 3
_TIMEOUT_S = 60
_FOREVER = datetime(1970, 1, 1, tzinfo=UTC)


def is_object_prefix(path: Path) -> bool:
    """Return whether a path is `s3://BUCKET/PREFIX`, as a path has it: with one slash."""
    return len(path.parts) > 1 and path.parts[0] == SCHEME


def object_tree(path: Path, key: str, max_bytes: int) -> ObjectTree:
    """List the objects below a prefix, all of them or none.

    Args:
        path: `s3://BUCKET/PREFIX`.
        key: the source, for what is said of errors.
        max_bytes: a larger object cannot be read.

    Raises:
        SourceError: they cannot be listed to the end, there is none, or there are too many.
    """
    try:
        import obstore
    except ImportError:
        raise SourceError(f"sources.{key}.path is an object store; install citelock[s3]") from None
    bucket, prefix = path.parts[1], "/".join(path.parts[2:])
    address = f"s3://{bucket}/{prefix}"
    try:
        store = _store(bucket, prefix)
        listed = [one for page in obstore.list(store, chunk_size=1000) for one in page]
    except (obstore.exceptions.BaseError, OSError, ValueError) as error:
        raise SourceError(f"{address} cannot be listed, and nothing was deleted: {_line(error)}") from None
    return ObjectTree(store, address, key, listed, max_bytes)


class ObjectTree:
    """The objects of a prefix by their names below it; those whose names a folder would hide are left aside."""

    def __init__(self, store: Any, address: str, key: str, listed: Sequence[Any], max_bytes: int) -> None:
        from rag_assets.sources.sites.trees import is_left_aside

        if len(listed) > MOST_OBJECTS:
            raise SourceError(f"{address} has more than {MOST_OBJECTS:,} objects; make several sources of it")
        self._store, self._max_bytes = store, max_bytes
        self._objects = {
            str(one["path"]): one for one in listed if not any(map(is_left_aside, str(one["path"]).split("/")))
        }
        if not self._objects:
            raise SourceError(f"{address} holds no object; set sources.{key}.path to a prefix of documents")
        self.names: Sequence[str] = sorted(self._objects)

    def stamp(self, name: str) -> str:
        """Return what differs when an object was changed: its size and ETag."""
        one = self._objects[name]
        tag = one.get("e_tag") or one["last_modified"].isoformat()
        return f"{one['size']}.{str(tag).strip(chr(34))}"

    def written_at(self, name: str) -> datetime:
        """Return when an object was written."""
        found = self._objects[name]["last_modified"]
        return found.astimezone(UTC) if isinstance(found, datetime) else _FOREVER

    def touched_at(self, name: str) -> float:
        """Return 0 where the ETag tells an object's content, else when it was written."""
        return 0.0 if self._objects[name].get("e_tag") else self.written_at(name).timestamp()

    def read(self, name: str) -> bytes:
        """Return the content of an object.

        Raises:
            KeyError: there is none of that name.
            FileError: it cannot be read, is larger than allowed, or changed since it was listed.
        """
        import obstore

        from rag_assets.sources.sites.trees import check_size, within

        one = self._objects[name]
        check_size(one["size"], self._max_bytes)
        options: Any = {"if_match": one["e_tag"]} if one.get("e_tag") else {}
        for tried in range(1, _TRIES + 1):
            try:
                return within(bytes(obstore.get(self._store, name, options=options).bytes()), self._max_bytes)
            except obstore.exceptions.PreconditionError:
                raise FileError("it changed while it was read; the next build reads it") from None
            except FileNotFoundError:
                raise FileError("it cannot be fetched: it is not there any more") from None
            except (
                obstore.exceptions.BaseError,
                OSError,
            ) as error:  # also one that drops within a body
                if tried == _TRIES:
                    raise FileError(f"it cannot be fetched: {_line(error)}") from None
        raise AssertionError


def _store(bucket: str, prefix: str) -> Any:
    from obstore.store import S3Store

    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    return S3Store(
        bucket,
        prefix=prefix or None,
        client_options={"timeout": f"{_TIMEOUT_S}s", "allow_http": endpoint.startswith("http://")},
        retry_config={"max_retries": _RETRIES, "retry_timeout": timedelta(seconds=3 * _TIMEOUT_S)},
    )


def _line(error: Exception) -> str:
    """Return an error on one line, without what a request carried."""
    return " ".join(str(error).split())[:200]
