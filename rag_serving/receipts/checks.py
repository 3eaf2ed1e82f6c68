"""What a proof looks at, one by one: the parts that hold beside those that do not.

Belongs here: naming the parts of a replayed receipt. Does not belong here: the replay (`replay`).

Each part is read from the same faults that `citelock receipt verify` prints, so that neither can say otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Name = Literal[
    "signature", "id", "generation", "question", "text_hash", "file", "lock", "quote", "verdicts", "outcome", "page",
]  # fmt: skip
_BEFORE_REPLAY = ("receipt:", "generation:", "passage ", "question:")
_NOT_IN_LOCK = "was not in the lock"
_UNCHECKED = "not checked, because something before it does not hold"


@dataclass(frozen=True)
class Check:
    """One part of a proof. `index`: the number of a citation as it is shown, or the place of a passage in the lock."""

    name: Name
    ok: bool
    detail: str
    index: int | None = None

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape."""
        shape = {"name": self.name, "ok": self.ok, "detail": self.detail}
        return shape if self.index is None else {**shape, "index": self.index}


def checks_of(receipt: Mapping[str, Any], faults: Sequence[str], changes: Sequence[str]) -> tuple[Check, ...]:
    """Return every part that a replay looked at, with its fault where it has one.

    `faults` and `changes` are those of the receipt, a line each that begins with its part. A page that changed does not
    make a receipt wrong: its `page` check says that the answer may be out of date.
    """
    return tuple(_checks(receipt, faults, changes))


def _checks(receipt: Mapping[str, Any], faults: Sequence[str], changes: Sequence[str]) -> Iterator[Check]:
    yield _check("signature", _lines("signature:", faults), "it was stored here and not changed since")
    yield _check("id", _lines("id:", faults), "it is the digest of the receipt")
    unread = _lines("receipt:", faults)
    yield _check("generation", [*_lines("generation:", faults), *unread], "the pages that were asked are still kept")
    if unread or _lines("generation:", faults):
        return
    yield _check("question", _lines("question:", faults), "it is the one that was hashed")
    passages = [passage["index"] for passage in receipt["passages"]]
    for place in passages:
        lines = _lines(f"passage [{place}]:", faults)
        yield _check("text_hash", lines, "the passage has the text and version that were read", place)
    for place in [passage["index"] for passage in receipt["passages"] if passage.get("file")]:
        yield _check("file", _lines(f"file [{place}]:", faults), "the file has the SHA-256 that was noted", place)
    is_replayed = not any(line.startswith(_BEFORE_REPLAY) for line in faults)
    yield from _replayed(receipt, faults) if is_replayed else _unchecked()
    for place in passages:
        yield _check("page", _lines(f"passage [{place}]:", changes), "its page is still the same", place)


def _replayed(receipt: Mapping[str, Any], faults: Sequence[str]) -> Iterator[Check]:
    of_citations = _lines("citation [", faults, whole=True)
    outside = [line for line in of_citations if _NOT_IN_LOCK in line]
    yield _check("lock", outside, _all(receipt["citations"], "citation", "stood among the locked passages"))
    for number in dict.fromkeys(citation["index"] for citation in receipt["citations"]):
        lines = [line for line in _lines(f"citation [{number}]:", faults) if _NOT_IN_LOCK not in line]
        yield _check("quote", lines, "every quote stands in its passage at its place", number)
    verdicts = [*_lines("verdict ", faults, whole=True), *_lines("sentences:", faults)]
    yield _check("verdicts", verdicts, _all(receipt["verdicts"], "verdict", "came out the same once more"))
    yield _check("outcome", _lines("outcome:", faults), "it is shown as what it is")


def _all(parts: Sequence[Any], noun: str, holds: str) -> str:
    """Return what holds of some parts, however many there are."""
    if not parts:
        return f"there is no {noun}"
    return f"all {len(parts)} {noun}s {holds}" if len(parts) > 1 else f"the {noun} {holds}"


def _unchecked() -> Iterator[Check]:
    yield from (Check(name, False, _UNCHECKED) for name in ("lock", "quote", "verdicts", "outcome"))


def _lines(part: str, lines: Iterable[str], whole: bool = False) -> list[str]:
    """Return the lines of a part; without its name unless `whole`."""
    return [line if whole else line.removeprefix(part).strip() for line in lines if line.startswith(part)]


def _check(name: Name, lines: Sequence[str], fine: str, index: int | None = None) -> Check:
    return Check(name, not lines, "; ".join(lines) or fine, index)
