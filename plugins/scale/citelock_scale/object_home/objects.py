"""The objects of a shared home: read, created once, replaced only if nobody else did."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from rag_serving.config.index import ObjectStore
from rag_serving.shared_home import ObjectHomeError

PART_BYTES = 8 << 20
"""Of uploads in parts, and of what one request fetches; files below are sent by one request."""
_LARGEST_BYTES = 256 << 20  # of what is read into memory
_PARTS = 9_000  # S3 takes 10,000
_PARTS_AT_ONCE = 2
_DELETED_AT_ONCE = 1000  # the most that S3 takes
_DELETED_SINGLY_AT_ONCE = 8


class StoreAwayError(ObjectHomeError):
    """The store does not answer, or says that it fails; another request would fare no better now."""


class MissingError(ObjectHomeError):
    """There is no object of that name."""


Version = Mapping[str, str]
"""What a replacement must name: an `e_tag`, on Google Cloud Storage a `version`, the object's generation."""
_NEVER: Version = {"e_tag": f'"{"0" * 32}"', "version": "1"}


class Stored(NamedTuple):
    """The content of an object, and the version that a replacement must name."""

    content: bytes
    version: Version


class Objects:
    """The objects under the address of a shared home. Safe to use from several threads."""

    def __init__(self, settings: ObjectStore) -> None:
        """Raises ObjectHomeError if the address cannot be used, or `citelock[scale]` is not installed."""
        assert settings.url
        self.url = settings.url
        try:
            import obstore
        except ModuleNotFoundError:
            raise ObjectHomeError(f"home {self.url} needs `pip install citelock[scale]`") from None
        self._obstore = obstore
        self._heads: Path | None = None
        with self._reported("opened"):
            self._store = self._opened(settings)

    def _opened(self, settings: ObjectStore) -> Any:
        from obstore import store

        if self.url.startswith("file://"):
            self._heads = Path(self.url.removeprefix("file://"))
            return store.LocalStore(prefix=str(self._heads), mkdir=True)
        endpoint = _endpoint(settings, self.url.partition("://")[0])
        timeout, retry = timedelta(seconds=settings.timeout_s), timedelta(seconds=settings.retry_s)
        more: dict[str, Any] = {"endpoint": endpoint} if endpoint else {}
        return store.from_url(
            self.url,
            client_options={"timeout": timeout, "allow_http": endpoint.startswith("http://")},
            retry_config={"max_retries": 10 if settings.retry_s else 0, "retry_timeout": retry},
            **more,
        )

    def read(self, name: str, largest: int = _LARGEST_BYTES, known: Stored | None = None) -> Stored | None:
        """Return an object of at most `largest` bytes, None if there is none. Where the store says that it is still the
        `known` one, its content is not sent again."""
        with self._reported(name):
            try:
                # Only another one than the known is asked for; a folder has no such requests.
                tag = known.version.get("e_tag") if known and self._heads is None else None
                found = self._store.get(name, options={"if_none_match": tag} if tag else None)
                if found.meta["size"] > largest:
                    raise ObjectHomeError(f"{self.url}/{name} is larger than {largest / 1e6:.1f} MB; it is not ours")
                content = bytes(found.bytes())
            except FileNotFoundError:
                return None
            except self._obstore.exceptions.NotModifiedError:
                return known
            return Stored(content, self._version(content, found.meta))

    def create(self, name: str, content: bytes) -> Version | None:
        """Write a new object. Return its version, or None if there is one of that name already."""
        return self._put(name, content, None)

    def replace(self, name: str, content: bytes, version: Version) -> Version | None:
        """Write an object in place of the one with that version. Return the new version, or None if it has another one
        by now."""
        return self._put(name, content, version)

    def size(self, name: str) -> int | None:
        """Return the size of an object [bytes], None if there is none."""
        with self._reported(name):
            try:
                return int(self._store.head(name)["size"])
            except FileNotFoundError:
                return None

    def upload(self, name: str, blocks: Iterator[bytes], size: int) -> None:
        """Write an object of `size` bytes in parts. Where `blocks` raises an error, nothing is written."""
        part = max(PART_BYTES, -(-size // _PARTS))
        with self._reported(name):
            self._store.put(name, blocks, use_multipart=True, chunk_size=part, max_concurrency=_PARTS_AT_ONCE)

    def blocks(self, name: str, size: int) -> Iterator[bytes]:
        """Yield the first `size` bytes of an object, a few megabytes at a time. Each block is a request of its own,
        which has its own time and is tried again by itself. Raises MissingError: there is no such object. Raises
        ObjectHomeError: the store cannot be used."""
        for start in range(0, size, PART_BYTES):
            with self._reported(name):
                try:
                    yield bytes(self._store.get_range(name, start=start, length=min(PART_BYTES, size - start)))
                except FileNotFoundError:
                    raise MissingError(
                        f"{self.url}/{name} is missing; `citelock home repair` on a machine that has the file sends it "
                        "again"
                    ) from None

    def names(self, prefix: str) -> Iterator[tuple[str, int, float]]:
        """Yield name, size [bytes] and time of change [s since 1970] of the objects that the store lists."""
        with self._reported(prefix):
            for page in self._store.list(prefix, chunk_size=1000):
                for one in page:
                    yield one["path"], one["size"], one["last_modified"].timestamp()

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects; those that are gone already are no error."""
        chosen = list(names)
        for start in range(0, len(chosen), _DELETED_AT_ONCE):
            some = chosen[start : start + _DELETED_AT_ONCE]
            with self._reported(some[0]):
                try:
                    self._store.delete(some)
                except FileNotFoundError:  # says nothing of the others: Azure ends there
                    with ThreadPoolExecutor(_DELETED_SINGLY_AT_ONCE) as threads:
                        list(threads.map(self._delete_one, some))

    def _delete_one(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._store.delete(name)

    def check_conditions(self, name: str, content: bytes) -> None:
        """Verify with an existing object that the store refuses a conditional write whose condition is false. Raises
        ObjectHomeError: it does not, so two builds could publish different things at once."""
        if self.create(name, content) is not None or self.replace(name, content, _NEVER) is not None:
            raise ObjectHomeError(
                f"{self.url} ignores If-None-Match or If-Match, without which machines cannot share a home; "
                "use a store that supports conditional writes"
            )

    def _put(self, name: str, content: bytes, version: Version | None) -> Version | None:
        taken = self._obstore.exceptions.AlreadyExistsError, self._obstore.exceptions.PreconditionError
        with self._reported(name):
            if self._heads is not None and version is not None:
                return self._put_in_folder(self._heads, name, content, version)
            try:
                made = self._store.put(name, content, mode=version or "create")
            except taken:
                return None
            return self._version(content, made)

    def _put_in_folder(self, folder: Path, name: str, content: bytes, version: Version) -> Version | None:
        """Replace an object in a folder, which has no conditional writes: a lock file beside the objects replaces
        them."""
        from filelock import FileLock

        with FileLock(folder / ".lock", fallback_to_soft=False):
            found = self.read(name)
            if found is None or found.version != version:
                return None
            self._store.put(name, content)
            return self._version(content, {})

    def _version(self, content: bytes, told: Mapping[str, Any]) -> Version:
        """Return the version that a store gave with a content; a folder's is the digest."""
        if self._heads is not None:
            return {"e_tag": hashlib.sha256(content).hexdigest()}
        return {key: str(told[key]) for key in ("e_tag", "version") if told.get(key)}

    @contextmanager
    def _reported(self, name: str) -> Iterator[None]:
        """Tell every error of the store in one line."""
        try:
            yield
        except (ObjectHomeError, GeneratorExit):
            raise
        except (self._obstore.exceptions.BaseError, OSError, ValueError) as error:
            said = " ".join(str(error).split())[:300] or type(error).__name__
            kind = StoreAwayError if isinstance(error, self._obstore.exceptions.GenericError) else ObjectHomeError
            raise kind(
                f"{self.url}: {name} cannot be used ({said}); see that the store answers and its credentials are set"
            ) from error


def _endpoint(settings: ObjectStore, scheme: str) -> str:
    if scheme == "gs" and settings.endpoint:
        raise ObjectHomeError("object_store.endpoint is for s3:// and az://, and home is a gs:// address; remove it")
    if settings.endpoint:
        return settings.endpoint
    return os.environ.get("AWS_ENDPOINT_URL", "") if scheme == "s3" else ""
