"""Hostile connections: each kind blocks, wastes or floods in its own way, and reconnects when it is closed.

On Linux they come from 127.0.0.2, as from another machine.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import struct
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress

ADDRESS = "127.0.0.2" if sys.platform == "linux" else "127.0.0.1"
_HEAD = b"POST /v1/ask HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
_QUESTION = json.dumps({"question": "How often does a planning cycle start?", "stream": True}).encode()
_CLIENT_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(range(189))
_TIRED_S = 20.0  # after which a connection that nobody closed is opened anew


class AttackConnection:
    """A connection to the server that is attacked, with the token of a caller, if it has one."""

    def __init__(self, made: socket.socket, token: str) -> None:
        self._made, self._loop = made, asyncio.get_running_loop()
        self.identity = f"Authorization: Bearer {token}\r\n".encode() if token else b""

    async def send(self, content: bytes) -> None:
        await self._loop.sock_sendall(self._made, content)

    async def drip(self, content: bytes = b"x", every_s: float = 1.0) -> None:
        """Send the same again and again, for ever."""
        while True:
            await self.send(content)
            await asyncio.sleep(every_s)

    async def read(self) -> bytes:
        """Return received bytes; none once the server has closed.

        Raises:
            ConnectionResetError: it has.
        """
        if not (content := await self._loop.sock_recv(self._made, 65_536)):
            raise ConnectionResetError
        return content

    async def closed(self) -> None:
        """Wait until the server closes."""
        with suppress(OSError):
            while True:
                await self.read()

    def reset(self) -> None:
        """Close with RST."""
        self._made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def _slow_headers(line: AttackConnection) -> None:
    await line.send(_HEAD + b"X: ")
    await line.drip()


async def _slow_body(line: AttackConnection) -> None:
    await line.send(_HEAD + line.identity + b"Content-Length: 900\r\n\r\n")
    await line.drip(b" ")


async def _idle(line: AttackConnection) -> None:
    await line.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    await line.closed()


async def _unread(line: AttackConnection) -> None:
    await line.send(_HEAD + line.identity + b"Content-Length: %d\r\n\r\n" % len(_QUESTION) + _QUESTION)
    await asyncio.sleep(_TIRED_S)
    line.reset()


async def _huge_headers(line: AttackConnection) -> None:
    await line.send(_HEAD + b"X: " + b"x" * 400_000)
    await line.closed()


async def _garbage(line: AttackConnection) -> None:
    await line.send(random.randbytes(500))
    await line.closed()


async def _tls(line: AttackConnection) -> None:
    await line.send(_CLIENT_HELLO)
    await line.closed()


async def _pipelined(line: AttackConnection) -> None:
    await line.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * 200)
    await line.closed()


async def _half_open(_: AttackConnection) -> None:
    await asyncio.sleep(_TIRED_S)


async def _wrong_tokens(line: AttackConnection) -> None:
    guess = b"Authorization: Bearer %d\r\n" % random.getrandbits(64)
    await line.send(_HEAD + guess + b"Content-Length: %d\r\n\r\n" % len(_QUESTION) + _QUESTION)
    await line.read()


async def _churn(line: AttackConnection) -> None:
    line.reset()


Kind = Callable[[AttackConnection], Awaitable[None]]
KINDS: dict[str, tuple[Kind, float]] = {
    "slow_headers": (_slow_headers, 0.5),
    "slow_body": (_slow_body, 0.5),
    "idle": (_idle, 0.5),
    "unread": (_unread, 0.5),
    "huge_headers": (_huge_headers, 1.0),
    "garbage": (_garbage, 0.2),
    "tls": (_tls, 0.2),
    "pipelined": (_pipelined, 0.5),
    "half_open": (_half_open, 0.5),
    "wrong_tokens": (_wrong_tokens, 0.1),
    "churn": (_churn, 0.05),
}
"""Each kind, and the seconds between two connections of one attacker."""


async def attack(port: int, count: int, token: str = "") -> None:
    """Keep up so many attackers, all kinds in turn, until cancelled. `token`: of a malicious caller."""
    kinds = list(KINDS.values())
    await asyncio.gather(*(_forever(port, token, *kinds[number % len(kinds)]) for number in range(count)))


async def _forever(port: int, token: str, kind: Kind, pause_s: float) -> None:
    loop = asyncio.get_running_loop()
    await asyncio.sleep(random.random() * pause_s)
    while True:
        with socket.socket() as made, suppress(OSError):
            made.setblocking(False)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            made.bind((ADDRESS, 0))
            await loop.sock_connect(made, ("127.0.0.1", port))
            with suppress(TimeoutError):
                async with asyncio.timeout(2 * _TIRED_S):
                    await kind(AttackConnection(made, token))
        await asyncio.sleep(pause_s * (0.5 + random.random()))
