"""A form with one file, read as it comes: the file goes piece by piece to its writer, fields are bounded.

Belongs here: what of `multipart/form-data` (RFC 7578) is taken, and its bounds.
Does not belong here: where the file goes, and what a field means (`uploads`, `documents`).
"""

from __future__ import annotations

from collections.abc import Collection

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from rag_serving.api.wire import RequestError

MAX_PARTS = 8
MAX_FIELD_BYTES = 20_000
MAX_HEADERS = 8
MAX_HEADER_BYTES = 16_384
FILE = "file"


def boundary_of(content_type: str) -> bytes:
    """Return the boundary of a form.

    Raises:
        RequestError: 415 for anything but such a form, 400 if it does not say its boundary.
    """
    kind, options = parse_options_header(content_type)
    if kind != b"multipart/form-data":
        raise RequestError(415, "MEDIA_TYPE", "send a form: Content-Type: multipart/form-data, with the part `file`")
    boundary = options.get(b"boundary", b"")
    if not boundary:
        raise RequestError(400, "BAD_REQUEST", "the form does not say its boundary")
    return boundary


class FileForm:
    """One form with a part `file` and some fields; `feed` it with chunks, and take `pending` in between."""

    def __init__(self, content_type: str, fields: Collection[str]) -> None:
        """`fields`: the names that a form may have beside `file`.

        Raises:
            RequestError: see `boundary_of`.
        """
        self.pending = bytearray()  # of the file, not yet taken
        self.fields: dict[str, str] = {}
        self.filename: str | None = None
        self.has_ended = False
        self._allowed = frozenset(fields)
        self._parts = 0
        self._name = ""
        self._header = [bytearray(), bytearray()]
        self._disposition = b""
        self._field = bytearray()
        try:
            self._parser = MultipartParser(
                boundary_of(content_type),
                {
                    "on_part_begin": self._part_begins,
                    "on_header_field": lambda data, start, end: self._header[0].extend(data[start:end]),
                    "on_header_value": lambda data, start, end: self._header[1].extend(data[start:end]),
                    "on_header_end": self._header_ends,
                    "on_headers_finished": self._headers_end,
                    "on_part_data": self._data,
                    "on_part_end": self._part_ends,
                    "on_end": self._ends,
                },
                max_header_count=MAX_HEADERS,
                max_header_size=MAX_HEADER_BYTES,
            )
        except FormParserError as error:
            raise _broken(error) from None

    def feed(self, data: bytes) -> None:
        """Read a piece of the body.

        Raises:
            RequestError: 400, it is no such form, or past a bound.
        """
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise _broken(error) from None

    def take(self) -> bytes:
        """Return the part of the file received since the last call."""
        data, self.pending = bytes(self.pending), bytearray()
        return data

    def finish(self) -> None:
        """Say that the body is over.

        Raises:
            RequestError: 400, the form is not: it was cut off, or has no file.
        """
        if not self.has_ended:
            raise RequestError(400, "BAD_REQUEST", "the form is cut off: its last boundary is missing")
        if self.filename is None:
            raise RequestError(400, "BAD_REQUEST", "the form has no part `file` with a file name", FILE)

    def _part_begins(self) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise RequestError(400, "BAD_REQUEST", f"a form has at most {MAX_PARTS} parts")
        self._name, self._disposition = "", b""
        self._field = bytearray()

    def _header_ends(self) -> None:
        name, value = self._header
        if bytes(name).strip().lower() == b"content-disposition":
            self._disposition = bytes(value)
        self._header = [bytearray(), bytearray()]

    def _headers_end(self) -> None:
        kind, options = parse_options_header(self._disposition)
        self._name = options.get(b"name", b"").decode("utf-8", "replace")
        if kind != b"form-data" or self._name not in self._allowed | {FILE}:
            allowed = ", ".join(f"`{name}`" for name in [FILE, *sorted(self._allowed)])
            raise RequestError(400, "BAD_REQUEST", f"the form has a part that is not known; there are {allowed}")
        if self._name == FILE:
            if self.filename is not None or b"filename" not in options:
                raise RequestError(400, "BAD_REQUEST", "send one file in one part `file`, with its file name", FILE)
            self.filename = options[b"filename"].decode("utf-8", "replace")
        elif self._name in self.fields:
            raise RequestError(400, "BAD_REQUEST", f"the form has `{self._name}` twice", self._name)

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._name == FILE:
            self.pending += data[start:end]
            return
        self._field += data[start:end]
        if len(self._field) > MAX_FIELD_BYTES:
            raise RequestError(400, "TOO_LONG", f"`{self._name}` has more than {MAX_FIELD_BYTES} bytes", self._name)

    def _part_ends(self) -> None:
        if self._name != FILE:
            self.fields[self._name] = bytes(self._field).decode("utf-8", "replace")

    def _ends(self) -> None:
        self.has_ended = True


def _broken(error: Exception) -> RequestError:
    return RequestError(400, "BAD_REQUEST", f"the form cannot be read: {error}")
