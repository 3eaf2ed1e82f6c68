"""Server-sent events, read from bytes (https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream).

Belongs here: lines and events. Does not belong here: what the data of an event means.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

# Of what Python takes for the end of a line only these end one here: JSON text may hold U+2028 and U+0085 as they are.
_LINE_END = re.compile(rb"\r\n|\n|\r")


async def event_data(chunks: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """Yield the data of each event, and of one that the end of the stream leaves without its empty line."""
    data: list[str] = []
    async for line in _lines(chunks):
        if line:
            name, _, value = line.partition(":")
            if name == "data":
                data.append(value.removeprefix(" "))
        elif data:
            yield "\n".join(data)
            data = []
    if data:
        yield "\n".join(data)


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[str]:
    rest = b""
    async for chunk in chunks:
        rest += chunk
        if b"\n" not in chunk and b"\r" not in chunk:
            continue
        held = rest[-1:] if rest.endswith(b"\r") else b""  # its line feed may come with the next chunk
        *lines, rest = _LINE_END.split(rest[: len(rest) - len(held)])
        rest += held
        for line in lines:
            yield line.decode(errors="replace")
    for line in _LINE_END.split(rest):
        yield line.decode(errors="replace")
