"""Messages as Outlook keeps them in files (MSG): as the e-mail that they are (MS-OXMSG, MS-OXPROPS, MS-CFB)."""

from __future__ import annotations

import io
import re
import struct
from codecs import lookup
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.message import Message
from email.utils import format_datetime
from zlib import crc32

import olefile

from citelock_formats.email_message import MOST_PARTS
from rag_assets.steps.files.records import FileError

_START = (
    rb"{\rtf1\ansi\mac\deff0\deftab720{\fonttbl;}{\f0\fnil \froman \fswiss \fmodern \fscript \fdecor MS Sans Serif"
    b"SymbolArialTimes New Roman"
    b"Courier{\\colortbl\\red0\\green0\\blue0\r\n\\par \\pard\\plain\\f0\\fs20\\b\\i\\u\\tab\\tx"
)
"""Initial dictionary of compressed RTF ([MS-OXRTFCP] 2.1.3.1.3): 207 bytes."""
_SIZE = 4096
_COMPRESSED, _PLAIN = 0x75465A4C, 0x414C454D
_HEADER = struct.Struct("<IIII")

MOST_ENTRIES = 50_000
"""Streams and storages of a compound file: a message with a hundred attached files has some thousand."""
DEEPEST_MESSAGE = 20
"""Messages within messages that Outlook's format holds in itself; below, they are recorded and not read."""
_HEADER_SIZE = 512
_PROPERTIES = "__properties_version1.0"
_RECIPIENT, _ATTACHED = "__recip_version1.0_", "__attach_version1.0_"
_EMBEDDED = "__substg1.0_3701000D"
_HEADERS = {"root": 32, "message": 24, "part": 8}
"""Bytes before the entries of a property stream (MS-OXMSG 2.4.1)."""
_MOST_RECIPIENTS = 200
_EPOCH = datetime(1601, 1, 1, tzinfo=UTC)

# Property identifiers (MS-OXPROPS).
_SUBJECT, _BODY, _RTF, _HTML, _CLASS = 0x0037, 0x1000, 0x1009, 0x1013, 0x001A
_SENDERS = ((0x0042, (0x5D02, 0x0065)), (0x0C1A, (0x5D01, 0x0C1F)))
"""Names and addresses of whom a message is from, then of who sent it."""
_TIMES = (0x0039, 0x0E06, 0x3007)
"""When a message was submitted, delivered, made."""
_SHOWN = {1: ("To", 0x0E04), 2: ("Cc", 0x0E03)}
_RECIPIENT_TYPE, _NAME, _ADDRESS, _SMTP = 0x0C15, 0x3001, 0x3003, 0x39FE
_DATA, _LONG_NAME, _SHORT_NAME, _MEDIA_TYPE, _CONTENT_ID = 0x3701, 0x3707, 0x3704, 0x370E, 0x3712
_CODE_PAGES = (0x3FFD, 0x3FDE)
_INTERNET_CODE_PAGE = 0x3FDE

# Property types (MS-OXCDATA 2.11.1).
_INTEGER, _TEXT_8, _TEXT_16, _TIME, _BINARY = 0x0003, 0x001E, 0x001F, 0x0040, 0x0102

_SIGNED = "multipart/signed"
"""What is attached to a message with a signature that its readers need not check: the message (MS-OXOSMIME 2.1.3)."""
_MEDIA = re.compile(r"(?!multipart/|message/)[a-z0-9.+-]{1,60}/[a-z0-9.+-]{1,100}\Z", re.IGNORECASE)
_IS_TEXT_AS_RTF = re.compile(rb"\\fromtext\b")
_PAGES = {65001: "utf-8", 20127: "ascii", 1200: "utf-16-le", 50220: "iso-2022-jp", 51932: "euc-jp", 20866: "koi8-r"}
_ISO = range(28591, 28606)
"""Code pages of ISO 8859-1 to -15."""


def outlook_message(content: bytes) -> Message:
    """Return the message of a compound file, messages inside it among its parts. Raises FileError: it is broken, or has
    no message."""
    if len(content) < _HEADER_SIZE:
        raise FileError("it is broken: its table of sectors is missing")
    shift, tables = struct.unpack_from("<H", content, 30)[0], struct.unpack_from("<I", content, 44)[0]
    if tables << min(shift, 16) > len(content):  # bytes of the table that chains sectors (MS-CFB 2.2)
        raise FileError("it is broken: its table of sectors is missing")
    try:
        with olefile.OleFileIO(io.BytesIO(content)) as file:
            return _File(file, len(content)).message((), "root")
    except FileError:
        raise
    except RecursionError:
        raise FileError("it is broken: its directory is nested too deeply") from None
    except (OSError, ValueError, LookupError, struct.error, TypeError, AttributeError, OverflowError) as error:
        why = " ".join(str(error).split())[:120]
        raise FileError(f"it is broken{f': {why}' if why else ''}") from None


class _File:
    """The compound file of a message. What is read of it all is no more than it has bytes: streams that share sectors
    would make it endless."""

    def __init__(self, file: olefile.OleFileIO, size: int) -> None:
        self._file, self._left, self._parts = file, size, 0
        entries = file.listdir(streams=True, storages=True)
        if len(entries) > MOST_ENTRIES:
            raise FileError(f"it has more than {MOST_ENTRIES:,} streams")
        self._inside: dict[tuple[str, ...], list[str]] = {}
        for *parents, name in entries:
            self._inside.setdefault(tuple(parents), []).append(name)

    def stream(self, path: tuple[str, ...]) -> bytes:
        name = list(path)
        size = self._file.get_size(name)
        self._left -= size
        if self._left < 0:
            raise FileError("it is broken: its streams claim to hold more than the file")
        with self._file.openstream(name) as stream:
            content: bytes = stream.read()
        if len(content) < size:
            raise FileError("it is broken: a part of it is missing")
        return content

    def inside(self, path: tuple[str, ...], prefix: str = "") -> list[str]:
        """Return the names in a storage, in the order of their numbers."""
        return sorted(name for name in self._inside.get(path, []) if name.startswith(prefix))

    def message(self, path: tuple[str, ...], place: str, depth: int = 0) -> Message:
        if _PROPERTIES not in self.inside(path):
            raise FileError("it holds no message of Outlook")
        properties = _Properties(self, path, place)
        made = Message()
        for name, value in self._head(path, properties):
            if value:
                made[name] = value
        made["Content-Type"] = "multipart/mixed"
        made.set_payload([])
        if (text := _text(properties)) is not None:
            made.attach(text)
        for name in self.inside(path, _ATTACHED):
            made.attach(self._attached((*path, name), properties.code_page, depth))
        return made

    def _head(self, path: tuple[str, ...], properties: _Properties) -> Iterator[tuple[str, str]]:
        recipients = self._recipients(path, properties.code_page)
        yield "From", _sender(properties)
        for kind, (name, shown) in _SHOWN.items():
            yield name, ", ".join(recipients.get(kind, [])) or properties.text(shown)
        yield "Date", next((date for one in _TIMES if (date := properties.date(one))), "")
        yield "Subject", properties.text(_SUBJECT)

    def _recipients(self, path: tuple[str, ...], code_page: str) -> dict[int, list[str]]:
        """Return how a message's recipients are named, by whether it is to them or a copy."""
        found: dict[int, list[str]] = {}
        for name in self.inside(path, _RECIPIENT)[:_MOST_RECIPIENTS]:
            properties = _Properties(self, (*path, name), "part", code_page)
            address = properties.text(_SMTP) or properties.text(_ADDRESS)
            found.setdefault(properties.integer(_RECIPIENT_TYPE) & 0xF, []).append(
                _named(properties.text(_NAME), address)
            )
        return found

    def _attached(self, path: tuple[str, ...], code_page: str, depth: int) -> Message:
        """Return an attachment as a part of a message: a message, or a file, empty if it is only a link."""
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise FileError(f"the e-mail has more than {MOST_PARTS:,} parts")
        properties = _Properties(self, path, "part", code_page)
        part = Message()
        inner = (*path, _EMBEDDED)
        name = properties.text(_LONG_NAME) or properties.text(_SHORT_NAME) or properties.text(_NAME)
        if _PROPERTIES in self.inside(inner) and depth < DEEPEST_MESSAGE:
            part["Content-Type"] = "message/rfc822"
            part.set_payload([self.message(inner, "message", depth + 1)])
            return part
        media = properties.text(_MEDIA_TYPE)
        if media.lower() == _SIGNED:
            return message_from_bytes(properties.binary(_DATA))
        part["Content-Type"] = media if _MEDIA.match(media) else "application/octet-stream"
        if identifier := properties.text(_CONTENT_ID):
            part["Content-ID"] = identifier
        part.add_header("Content-Disposition", "attachment", filename=name or None)
        _fill(part, properties.binary(_DATA))
        return part


class _Properties:
    """The properties of a message, a recipient or an attached file."""

    def __init__(self, file: _File, path: tuple[str, ...], place: str, code_page: str | None = None) -> None:
        """`code_page`: of the message that it belongs to; None: it is a message."""
        self._file, self._path = file, path
        self._streams = frozenset(file.inside(path))
        self._fixed = _fixed(file.stream((*path, _PROPERTIES)), _HEADERS[place]) if _PROPERTIES in self._streams else {}
        pages = (self.integer(one) for one in _CODE_PAGES)
        self.code_page = code_page or next((encoding(page) for page in pages if page), "cp1252")

    def integer(self, identifier: int) -> int:
        """Return a whole number; 0 if there is none."""
        found = self._fixed.get((identifier, _INTEGER))
        return int(struct.unpack("<I", found[:4])[0]) if found else 0

    def date(self, identifier: int) -> str:
        """Return a point of time as a header has it; empty if there is none."""
        found = self._fixed.get((identifier, _TIME))
        ticks = struct.unpack("<Q", found)[0] if found else 0
        try:
            return format_datetime(_EPOCH + timedelta(microseconds=ticks // 10)) if ticks else ""
        except OverflowError:
            return ""

    def text(self, identifier: int) -> str:
        """Return a text; empty if there is none."""
        for kind, codec in ((_TEXT_16, "utf-16-le"), (_TEXT_8, self.code_page)):
            if (content := self._stream(identifier, kind)) is not None:
                return content.decode(codec, "replace").rstrip("\0").replace("\0", " ")
        return ""

    def binary(self, identifier: int) -> bytes:
        """Return bytes; empty if there are none."""
        return self._stream(identifier, _BINARY) or b""

    def html(self) -> tuple[bytes, str]:
        """Return the HTML of a message and its encoding."""
        if content := self.binary(_HTML):
            page = self.integer(_INTERNET_CODE_PAGE)
            return content, encoding(page) if page else ""
        return self.text(_HTML).encode("utf-8", "replace"), "utf-8"

    def _stream(self, identifier: int, kind: int) -> bytes | None:
        name = f"__substg1.0_{identifier:04X}{kind:04X}"
        return self._file.stream((*self._path, name)) if name in self._streams else None


def encoding(code_page: int) -> str:
    """Return Python's name of a Windows code page; Windows-1252, the most frequent one, if it is unknown."""
    if code_page in _PAGES:
        return _PAGES[code_page]
    name = f"iso8859-{code_page - _ISO.start + 1}" if code_page in _ISO else f"cp{code_page}"
    try:
        return lookup(name).name
    except LookupError:
        return "cp1252"


def _fixed(stream: bytes, header: int) -> dict[tuple[int, int], bytes]:
    """Return the values of eight bytes in a property stream, by identifier and type."""
    entries = struct.iter_unpack("<HHI8s", stream[header : header + (len(stream) - header) // 16 * 16])
    return {(identifier, kind): value for kind, identifier, _, value in entries}


def _text(properties: _Properties) -> Message | None:
    """Return the body of a message as a part: the richest form that has words."""
    html, declared = properties.html()
    if html.strip(b"\0 \r\n\t"):
        return _body(html, "html", declared)
    plain = properties.text(_BODY)
    try:
        rtf = decompressed(properties.binary(_RTF))
    except FileError:
        rtf = b""
    if rtf and not (plain.strip() and _IS_TEXT_AS_RTF.search(rtf[:_HEAD_OF_RTF])):
        return _body(rtf, "rtf", "")
    return _body(plain.encode("utf-8", "replace"), "plain", "utf-8") if plain.strip() else None


_HEAD_OF_RTF = 512
"""Bytes within which RTF says what it was made from (MS-OXRTFEX 2.1.3.1.3: among the first ten words of control)."""


def _body(content: bytes, subtype: str, declared: str) -> Message:
    part = Message()
    part.add_header("Content-Type", f"text/{subtype}", **({"charset": declared} if declared else {}))
    _fill(part, content)
    return part


def _fill(part: Message, content: bytes) -> None:
    part["Content-Transfer-Encoding"] = "8bit"
    part.set_payload(content.decode("ascii", "surrogateescape"))


def _sender(properties: _Properties) -> str:
    for name, addresses in _SENDERS:
        shown = _named(properties.text(name), next((found for one in addresses if (found := properties.text(one))), ""))
        if shown:
            return shown
    return ""


def _named(name: str, address: str) -> str:
    """Return a person in mail's format; an address of another kind (an entry of a directory) is left out."""
    if "@" not in address or address == name:
        return name or (address if "@" in address else "")
    return f"{name} <{address}>" if name else address


def decompressed(content: bytes) -> bytes:
    """Return the RTF; empty of nothing. A byte of it is at most nine of RTF, so that no bound is needed. Raises
    FileError: it is broken."""
    if not content:
        return b""
    if len(content) < _HEADER.size:
        raise FileError("its compressed text is cut")
    size, _, kind, checksum = _HEADER.unpack_from(content)
    body = content[_HEADER.size : size + 4]
    if kind == _PLAIN:
        return body
    if kind != _COMPRESSED:
        raise FileError("its compressed text is of an unknown form")
    if crc32(body, 0xFFFFFFFF) ^ 0xFFFFFFFF != checksum:
        raise FileError("its compressed text is not what its checksum says")
    return _unpacked(body)


def _unpacked(body: bytes) -> bytes:
    """Return the expansion of runs of eight tokens, each a byte or a place in the last 4,096 bytes and a length."""
    dictionary = bytearray(_START.ljust(_SIZE, b" "))
    out, write, at = bytearray(), len(_START), 0
    while at < len(body):
        control, at = body[at], at + 1
        for bit in range(8):
            is_run = control >> bit & 1
            if at + 1 + is_run > len(body):
                return bytes(out)
            if is_run:
                place, length = body[at] << 4 | body[at + 1] >> 4, (body[at + 1] & 15) + 2
                if place == write:
                    return bytes(out)
            else:
                dictionary[write] = body[at]
                place, length = write, 1
            at += 1 + is_run
            for read in range(place, place + length):
                one = dictionary[read % _SIZE]
                out.append(one)
                dictionary[write] = one
                write = (write + 1) % _SIZE
    return bytes(out)
