"""A small Confluence REST client for Cloud and Data Center: patient, and sure of where a collection ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any, Self, TypeVar
from urllib.parse import parse_qs, parse_qsl, quote, unquote, urlsplit

from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_random_exponential

from rag_assets.sources.base import SourceError
from rag_assets.sources.confluence.transport import (
    MAX_WAIT_S,
    AccessRefused,
    AtlassianTransport,
    HttpReply,
    RefusedError,
    RetryableError,
    ServerFault,
    Unreachable,
    content_of,
    is_anonymous,
    is_nobody,
    moment_of,
    object_of,
    pace_of,
)

REFUSED = 0
"""The status of what was refused here, not by the site."""
FAILING_PAGES_IN_A_ROW = 10
"""So many single pages failing one after the other is a failing site."""
Envelope = dict[str, Any]
Given = TypeVar("Given")


@dataclass
class PageBatch:
    """The outcome of the requested pages: each id is in one of the three."""

    found: dict[str, Envelope] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    faulty: dict[str, str] = field(default_factory=dict)


class ConfluenceClient:
    """Reads one site; every failure is a SourceError of one line."""

    def __init__(
        self,
        base_url: str,
        transport: AtlassianTransport,
        *,
        max_retries: int = 5,
        per_second: float | None = None,
        archived: bool = False,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self._transport = transport
        self._signs_in = transport.signs_in
        self._max_retries = max_retries
        self._sleep = sleep
        self._backoff = wait_random_exponential(multiplier=0.5, max=30)
        self._per_second = per_second or 0.0
        self._pace = pace_of(base_url) if per_second else None
        self._status = {"status": "any"} if archived else {}  # an archived page is returned by its id only on request
        self._searches = True
        self._failing = 0
        self.space_keys: dict[str, object] = {}  # by the number that v2 gives a space
        self.cut_short: set[str] = (
            set()
        )  # collections that ended with an empty page though a link said that more remain
        self.server_time: datetime | None = None  # by the site's clock, at its first answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._transport.close()

    def get(self, path: str, params: Mapping[str, Any], retries: int | None = None) -> dict[str, Any]:
        """Return a JSON object; throttling, server errors, time-outs and cut answers are tried again. `path`: below the
        site's address, such as `rest/api/content`. `params`: the query. `retries`: tries after the first for requests
        that may fail for good (a page that breaks the server); throttling and an unreachable site always get the
        configured number. Raises AccessRefused: the site refuses it (400, 403, 404, 410 and the like). Raises
        ServerFault: server errors, time-outs or broken answers until the last try. Raises SourceError: sign-in failed,
        the site is not there, or it throttles for too long."""
        texts = {name: str(value) for name, value in params.items()}
        return self._patiently(lambda: object_of(self._at(path), self._once(path, texts)), retries)

    def check_signed_in(self) -> None:
        """Raise SourceError if the client signs in and the site takes it for nobody."""
        if not self._signs_in:
            return
        path = "rest/api/user/current"
        try:
            user = self.get(path, {})
        except AccessRefused as error:
            user = {"type": "anonymous" if error.status == 403 else "known"}
        if is_nobody(user):
            raise self._not_signed_in(path)

    def download(self, link: str) -> bytes:
        """Return the bytes behind `_links.download`; of the link only path and query are used, never its host. Raises
        SourceError: as `get`."""
        parts = urlsplit(link)
        path, params = unquote(parts.path).lstrip("/"), dict(parse_qsl(parts.query))
        return self._patiently(lambda: content_of(self._at(path), self._once(quote(path), params)))

    def collect(self, path: str, params: Mapping[str, Any], lean: str | None = None) -> Iterator[Envelope]:
        """Yield every entry of a paged collection, once; raise if its end is uncertain.

        A cursor in `_links.next` is followed; without one, `start` counts the received entries (a server may send fewer
        than `limit`), and only an empty page is the end. An empty page whose link promises more is requested once
        again; if it stays empty, it is the end. Of a link nothing but its cursor is used: a link cannot lead the
        credentials to another host. `lean`: an `expand` to fall back on for a page of results that fails with the
        regular one.
        """
        seen_ids: set[str] = set()
        position: dict[str, Any] = {}
        start, more, doubted = 0, True, False
        while True:
            answer = self._slice(path, {**params, **position}, lean)
            results = _results(answer, path)
            fresh = {_identity(entry): entry for entry in results if _identity(entry) not in seen_ids}
            if results and not fresh and more:
                raise ServerFault(f"{self._at(path)} gives the same entries again and again; nothing was changed")
            seen_ids.update(fresh)
            yield from (self._based(entry, answer) for entry in fresh.values())
            start += len(results)
            links = answer.get("_links")
            following = links.get("next") if isinstance(links, dict) else None
            following = following if isinstance(following, str) else None
            if not results and following is not None:
                if doubted:
                    self.cut_short.add(path)
                    return
                doubted = True
                continue
            doubted = False
            cursors = parse_qs(urlsplit(following or "").query).get("cursor")
            cursor = cursors[0] if cursors else None
            # Entries that repeat though no more were announced: the site knows cursors only and ignores `start`.
            if not fresh or ("cursor" in position and cursor is None):
                return
            more = following is not None
            position = {"cursor": cursor} if cursor is not None else {"start": start}

    def by_ids(self, ids: Sequence[str], expand: str) -> PageBatch:
        """Return pages by id, in one request if that works, else in halves, down to one page that fails alone."""
        batch = PageBatch()
        if len(ids) > 1 and self._searches:
            try:
                pages = self._search(ids, expand)
            except (AccessRefused, ServerFault) as error:
                self._searches = not (isinstance(error, AccessRefused) and error.status in (405, 410, 501))
                for half in (ids[: len(ids) // 2], ids[len(ids) // 2 :]) if self._searches else ():
                    other = self.by_ids(half, expand)
                    batch.found.update(other.found)
                    batch.refused.update(other.refused)
                    batch.faulty.update(other.faulty)
            else:
                batch.found.update(pages)
                self._failing = 0
        # The search index may lag behind the enumeration, so missing pages are requested by id.
        for page_id in ids:
            if page_id not in batch.found and page_id not in batch.refused and page_id not in batch.faulty:
                self._one(page_id, expand, batch)
        return batch

    def _search(self, ids: Sequence[str], expand: str) -> dict[str, Envelope]:
        path = "rest/api/content/search"
        params = {"cql": f"id in ({','.join(ids)})", "expand": expand, "limit": len(ids)}
        entries = {str(entry.get("id")): entry for entry in islice(self.collect(path, params), len(ids))}
        return {page_id: entries[page_id] for page_id in ids if page_id in entries}

    def _one(self, page_id: str, expand: str, batch: PageBatch) -> None:
        try:
            answer = self._content(page_id, expand)
            batch.found[page_id] = self._based(answer, answer)
        except AccessRefused as error:
            if (page := self._found(page_id, expand)) is not None:
                batch.found[page_id] = page
            else:
                batch.refused[page_id] = str(error)
            self._failing = 0
        except ServerFault as error:
            batch.faulty[page_id] = str(error)
            self._failing += 1
            if self._failing >= FAILING_PAGES_IN_A_ROW:
                raise SourceError(f"{self._failing} pages in a row failed, so the site does; last: {error}") from None
        else:
            self._failing = 0

    def _found(self, page_id: str, expand: str) -> Envelope | None:
        """Return a page refused by its id, through search: its arrival must not depend on its batch."""
        try:
            return self._search([page_id], expand).get(page_id) if self._searches else None
        except (AccessRefused, ServerFault):
            return None

    def _content(self, page_id: str, expand: str) -> Envelope:
        """By v1; if that is gone, by v2."""
        try:
            return self.get(f"rest/api/content/{in_path(page_id)}", {"expand": expand, **self._status})
        except AccessRefused as error:
            if error.status != 410:
                raise
            return read_by_v2(self, page_id)

    def _slice(self, path: str, params: Mapping[str, Any], lean: str | None) -> dict[str, Any]:
        """Return one page of results. A batch that fails is halved, which is a second try already: it gets few of its
        own."""
        try:
            return self.get(path, params, retries=1 if "cql" in params else None)
        except (AccessRefused, ServerFault):
            if lean is None:
                raise
            return self.get(path, {**params, "expand": lean})

    def _based(self, entry: Envelope, answer: Mapping[str, Any]) -> Envelope:
        links = entry.get("_links")
        shared = answer.get("_links")
        base = shared.get("base") if isinstance(shared, dict) else None
        return {**entry, "_links": {"base": base or self.base_url, **(links if isinstance(links, dict) else {})}}

    def _patiently(self, ask: Callable[[], Given], retries: int | None = None) -> Given:
        retrying = Retrying(
            stop=partial(self._stop, self._max_retries if retries is None else min(retries, self._max_retries)),
            wait=self._wait,
            retry=retry_if_exception_type(RetryableError),
            sleep=self._sleep,
            reraise=True,
        )
        try:
            return retrying(ask)
        except RetryableError as error:
            raise error.final from None

    def _once(self, path: str, params: Mapping[str, str]) -> HttpReply:
        pause = self._pace.wait(self._per_second) if self._pace else 0.0
        if pause > 0:
            self._sleep(pause)
        try:
            reply = self._transport(path, params)
        except RefusedError as error:
            raise AccessRefused(f"{self._at(path)}: {error}", REFUSED) from None
        except Unreachable as error:
            where = f"{self._at(path)} gave no answer ({error})"
            raise RetryableError(
                ServerFault(where) if error.slow else SourceError(f"{where}; check base_url and network")
            ) from None
        self.server_time = self.server_time or moment_of(reply.headers.get("Date"))
        if self._signs_in and is_anonymous(reply.headers):
            raise self._not_signed_in(path)
        return reply

    def _not_signed_in(self, path: str) -> SourceError:
        return SourceError(
            f"{self._at(path)}: not signed in, the site takes the account for nobody; nothing was deleted; "
            "check auth and its environment variables"
        )

    def _stop(self, retries: int, state: RetryCallState) -> bool:
        error = state.outcome.exception() if state.outcome else None
        faulty = isinstance(error, RetryableError) and isinstance(error.final, ServerFault)
        return state.attempt_number > (retries if faulty else self._max_retries)

    def _wait(self, state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        backoff = self._backoff(state)
        if not isinstance(error, RetryableError) or error.after is None:
            return backoff
        # A pause imposed on many clients ends for all of them at once: jitter here, too.
        return min(error.after, MAX_WAIT_S) + min(backoff, 1.0)

    def _at(self, path: str) -> str:
        return f"{self.base_url}/{path}"


def in_path(part: str) -> str:
    """Return an id or key as one segment of a path; personal spaces are named `~user`."""
    return quote(part, safe="~")


def _results(answer: Mapping[str, Any], path: str) -> list[Envelope]:
    results = answer.get("results")
    if not isinstance(results, list) or not all(isinstance(entry, dict) for entry in results):
        raise ServerFault(f"{path} answered without a list of results; check that base_url is a Confluence site")
    return results


def _identity(entry: Envelope) -> str:
    """Return the identity of an entry: an id, or names for labels and users, which have none."""
    names = (entry.get(name) for name in ("id", "prefix", "name", "accountId", "userKey", "username"))
    return ":".join(map(str, names))


_V2_LIMIT = 250
_PATHS = {"page": "pages", "blogpost": "blogposts"}


def listed_by_v2(client: ConfluenceClient, space: str, kind: str, status: str) -> Iterator[dict[str, Any]]:
    """Entries of a space without ancestors and restrictions. Raises AccessRefused: there is no such space for this
    user."""
    spaces = client.get("api/v2/spaces", {"keys": space, "limit": 1}).get("results")
    if not isinstance(spaces, list) or not spaces or not isinstance(spaces[0], dict):
        raise AccessRefused(f"api/v2/spaces knows no space {space}", 404)
    number = str(spaces[0].get("id"))
    client.space_keys.setdefault(number, space)
    path = f"api/v2/spaces/{number}/{_PATHS[kind]}"
    for entry in client.collect(path, {"status": status, "limit": _V2_LIMIT}):
        yield _as_v1(entry, kind, _space_key(client, str(entry.get("spaceId", number))))


def read_by_v2(client: ConfluenceClient, page_id: str) -> dict[str, Any]:
    """Return one page with body, labels and ancestors. Its restrictions are v1's, and added by callers that need them.
    Raises AccessRefused, ServerFault: it is unavailable."""
    try:
        kind, entry = "page", client.get(f"api/v2/pages/{page_id}", {"body-format": "storage"})
    except AccessRefused as error:
        if error.status != 404:
            raise
        kind, entry = "blogpost", client.get(f"api/v2/blogposts/{page_id}", {"body-format": "storage"})
    path = f"api/v2/{_PATHS[kind]}/{page_id}"
    space = _space_key(client, str(entry.get("spaceId")))
    above = list(client.collect(f"{path}/ancestors", {"limit": _V2_LIMIT})) if kind == "page" else []
    labels = list(client.collect(f"{path}/labels", {"limit": _V2_LIMIT}))
    shaped = _as_v1(entry, kind, space)
    return {**shaped, "body": entry.get("body"), "ancestors": above, "metadata": {"labels": {"results": labels}}}


def _space_key(client: ConfluenceClient, number: str) -> object:
    """Return the key of a space, requested once: all pages of a source are of one space."""
    if number not in client.space_keys:
        client.space_keys[number] = client.get(f"api/v2/spaces/{number}", {}).get("key")
    return client.space_keys[number]


def _as_v1(entry: dict[str, Any], kind: str, space: object) -> dict[str, Any]:
    version = entry.get("version")
    details = version if isinstance(version, dict) else {}
    return {
        **{name: entry.get(name) for name in ("id", "status", "title", "_links")},
        "type": kind,
        "space": {"key": space},
        "version": {"number": details.get("number"), "when": details.get("createdAt")},
        "extensions": {"position": entry.get("position")},
    }
