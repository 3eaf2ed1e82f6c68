"""What goes between this process and its parser: frames of JSON and bytes, and how results are written as JSON.

Belongs here: the frames, blocks as arrays. Does not belong here: processes (`child`), what is parsed (`worker`).
"""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import IO, Any, NamedTuple

from rag_assets.steps.formats.blocks import Block, Content, Link, Listing, Reference

_HEAD = struct.Struct("!4sII")
_MAGIC = b"CLP1"


class Frame(NamedTuple):
    """A small JSON object, and bytes that it is about."""

    facts: dict[str, Any]
    content: bytes = b""


class WireError(Exception):
    """What was read is no frame, or more than may be read."""


def write_frame(stream: IO[bytes], frame: Frame) -> None:
    """Write a frame and flush. Raises OSError where nobody reads it."""
    facts = json.dumps(frame.facts).encode()
    stream.write(_HEAD.pack(_MAGIC, len(facts), len(frame.content)))
    stream.write(facts)
    stream.write(frame.content)
    stream.flush()


def read_frame(stream: IO[bytes], most: int) -> Frame | None:
    """Return the next frame, None at the end of the stream.

    Raises:
        WireError: it is broken, or larger than `most` bytes.
    """
    head = stream.read(_HEAD.size)
    if not head:
        return None
    if len(head) < _HEAD.size or not head.startswith(_MAGIC):
        raise WireError("it wrote something else than an answer")
    _, facts_size, content_size = _HEAD.unpack(head)
    if facts_size + content_size > most:
        raise WireError(f"its answer has more than {most:,} bytes")
    facts, content = stream.read(facts_size), stream.read(content_size)
    if len(facts) + len(content) < facts_size + content_size:
        raise WireError("its answer is cut")
    try:
        read = json.loads(facts)
    except ValueError:
        read = None
    if not isinstance(read, dict):
        raise WireError("it wrote something else than an answer")
    return Frame(read, content)


def content_to_json(content: Content | None) -> Any:
    """Return blocks and ledger as JSON can hold them; named tuples are written as arrays."""
    if content is None:
        return None
    ledger = [[*key, count] for key, count in content.ledger.items()]
    return {"blocks": content.blocks, "ledger": ledger, "cut": content.cut}


def content_of_json(payload: Any) -> Content | None:
    """Return what `content_to_json` was given.

    Raises:
        WireError: it is something else.
    """
    if payload is None:
        return None
    try:
        blocks = [_block(fields) for fields in payload["blocks"]]
        ledger = Counter({(str(macro), str(outcome)): int(count) for macro, outcome, count in payload["ledger"]})
        return Content(blocks, ledger, payload["cut"])
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        raise WireError("it wrote something else than an answer") from None


def _block(fields: Sequence[Any]) -> Block:
    block = Block(*fields)
    reference, listing = block.reference, block.listing
    if not (reference or listing or block.links or block.anchors):
        return block._replace(anchors=(), links=())
    return block._replace(
        anchors=tuple(block.anchors),
        reference=Reference(*reference) if reference else None,
        listing=_listing(listing) if listing else None,
        links=tuple(Link(*link) for link in block.links),
    )


def _listing(fields: Sequence[Any]) -> Listing:
    listing = Listing(*fields)
    if not isinstance(listing.parameters, Mapping):
        raise TypeError
    return listing
