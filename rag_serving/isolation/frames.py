"""Messages between a process and its child: frames of JSON and bytes.

Belongs here: reading and writing them. Does not belong here: processes (`child`), their contents.
"""

from __future__ import annotations

import json
import struct
from typing import IO, Any, NamedTuple

_HEAD = struct.Struct("!4sII")
_MAGIC = b"CLP1"
REPORT = "report"
"""The key of a frame that comes before an answer and says how far it is: [done, in all]."""


class Frame(NamedTuple):
    """A small JSON object, and bytes that it is about."""

    facts: dict[str, Any]
    content: bytes = b""


class WireError(Exception):
    """The bytes read are no frame, or more than allowed."""


def write_frame(stream: IO[bytes], frame: Frame) -> None:
    """Write a frame and flush. Raises OSError if nobody reads it."""
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
