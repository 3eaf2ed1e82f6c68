"""Small PDF files that ask for much, by the letter of ISO 32000."""

from __future__ import annotations

import zlib

_FONT = b"/Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >>"
_CATALOG = b"<< /Type /Catalog /Pages 2 0 R >>"


def pages_of_one_stream(pages: int, lines: int) -> bytes:
    """Many pages that all show the same stream."""
    return _written([_CATALOG, _pages(pages), _stream(_text(lines)), *[_page(b"", 3)] * pages], first=4)


def stream_within_stream(lines: int) -> bytes:
    """One page whose text was packed twice, to a thousandth each time."""
    packed = zlib.compress(zlib.compress(_text(lines), 9), 9)
    return _written([_CATALOG, _pages(1), _raw(packed, b"/Filter [/FlateDecode /FlateDecode]"), _page(b"", 3)], first=4)


def forms_within_forms(depth: int, width: int) -> bytes:
    """One page that shows a form `width` times, which shows another as often, and so on: `width ** depth` texts."""
    objects = [_CATALOG, _pages(1), _raw(b"/X Do " * width), _page(b"/XObject << /X 5 0 R >>", 3)]
    head = b"/Type /XObject /Subtype /Form /BBox [0 0 612 792]"
    for level in range(1, depth):
        objects.append(_raw(b"/X Do " * width, head + b" /Resources << /XObject << /X %d 0 R >> >>" % (5 + level)))
    objects.append(_raw(b"BT /F1 12 Tf (words of a form) Tj ET", head + b" /Resources << " + _FONT + b" >>"))
    return _written(objects, first=4)


def _text(lines: int) -> bytes:
    return b"BT /F1 1 Tf 1 1 Td " + b"(word word word) Tj 0 1 Td " * lines + b"ET"


def _page(resources: bytes, contents: int) -> bytes:
    box = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R" % contents
    return box + b" /Resources << " + resources + b" " + _FONT + b" >> >>"


def _pages(count: int) -> bytes:
    return b"<< /Type /Pages /Kids [%s] /Count %d >>" % (
        b" ".join(b"%d 0 R" % (4 + one) for one in range(count)),
        count,
    )


def _stream(content: bytes) -> bytes:
    return _raw(zlib.compress(content, 9), b"/Filter /FlateDecode")


def _raw(content: bytes, facts: bytes = b"") -> bytes:
    return b"<< /Length %d %s >>\nstream\n%s\nendstream" % (len(content), facts, content)


def _written(objects: list[bytes], first: int) -> bytes:
    """The file; pages begin with the object of this number."""
    assert b"/Type /Page " in objects[first - 1]
    content, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, start=1):
        places.append(len(content))
        content += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    trailer = b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, len(content))
    return content + b"xref\n0 %d\n0000000000 65535 f \n%s%s" % (len(objects) + 1, table, trailer)
