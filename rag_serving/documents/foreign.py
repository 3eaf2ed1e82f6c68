"""Files that are not read, known by their first bytes: archives other than zip, programs, sound and film.

Belongs here: signatures, and what is said of them. Does not belong here: kinds that are read (`kinds`).
"""

from __future__ import annotations

from types import MappingProxyType

_FOREIGN_HEADS = (
    (0, (b"7z\xbc\xaf\x27\x1c", b"Rar!", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd"), "archive"),
    (257, (b"ustar",), "archive"),
    (0, (b"MZ", b"\x7fELF", b"\xca\xfe\xba\xbe", b"\xcf\xfa\xed\xfe"), "program"),
    (0, (b"GIF8", b"BM", b"RIFF", b"\x00\x00\x01\x00"), "media"),
    (4, (b"ftyp",), "media"),
    (0, (b"ID3", b"OggS", b"fLaC", b"\x1aE\xdf\xa3"), "media"),
)
_FOREIGN_WORDS = MappingProxyType(
    {
        "archive": "archives of this type are not opened; make it a zip",
        "program": "it is a program, not a document",
        "media": "pictures of this type, sound and film are not read; save a picture of a page as PNG",
    }
)


def foreign(head: bytes) -> str | None:
    """Return why a file with these first bytes is not read; None where they are of nothing that is known."""
    for offset, signatures, what in _FOREIGN_HEADS:
        if head[offset:].startswith(signatures):
            return _FOREIGN_WORDS[what]
    return None
