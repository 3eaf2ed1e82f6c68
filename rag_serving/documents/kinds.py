"""The kinds of files that are read, by content and then by name; names as they are kept and shown."""

from __future__ import annotations

import re
import struct
import unicodedata
from collections.abc import Iterator
from types import MappingProxyType
from typing import Literal

MAX_CHARS = 200
MAX_BYTES = 255
"""Of a name in UTF-8, as file systems count."""
NAMELESS = "document"

_SPACES = re.compile(r"\s+")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_JOINERS = frozenset({"\u200c", "\u200d"})  # Persian, Indic scripts and emoji are written with them


def safe_name(name: str) -> str:
    """Return a file's name on one line, without folders, control characters and changes of direction, in NFC. A longer
    one is cut before its ending. One of which nothing is left is `document`."""
    shortened = name if len(name) < 16 * MAX_CHARS else name[: 8 * MAX_CHARS] + name[-8 * MAX_CHARS :]
    own = shortened.replace("\\", "/").rpartition("/")[2]
    spaced = (" " if char.isspace() else char for char in own)
    kept = "".join(char for char in spaced if char in _JOINERS or unicodedata.category(char) not in _HIDDEN)
    plain = _SPACES.sub(" ", unicodedata.normalize("NFC", kept)).strip(" .")
    return _cut(plain or NAMELESS)


def _cut(name: str) -> str:
    if len(name) <= MAX_CHARS and len(name.encode()) <= MAX_BYTES:
        return name
    stem, dot, extension = name.rpartition(".")
    ending = f"{dot}{extension}" if stem and len(extension.encode()) <= 16 else ""
    stem = stem if ending else name
    kept = stem[: MAX_CHARS - len(ending)].encode()[: MAX_BYTES - len(ending.encode())].decode("utf-8", "ignore")
    return kept.rstrip(" .") + ending


ZIP_HEADS = (b"PK\x03\x04", b"PK\x05\x06")
OLE_HEAD = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
MOST_NAMES = 20_000
"""Names of a zip's directory that are looked at: those that tell a format are never far from its beginning or end."""

_EOCD = b"PK\x05\x06"
_EOCD_WITHIN = 22 + 65_535  # bytes from the end: the record and the longest comment
_ENTRY = b"PK\x01\x02"
_ENTRY_SIZE = 46
_OLE_SECTOR, _OLE_NAME = 512, 128  # bytes: streams' names begin at multiples of the second


def zip_names(content: bytes) -> list[str] | None:
    """Return the names in a zip's directory, in its order; None if it has no directory that can be read."""
    at = content.rfind(_EOCD, max(0, len(content) - _EOCD_WITHIN))
    if at < 0 or at + 22 > len(content):
        return None
    size, offset = struct.unpack_from("<II", content, at + 12)
    start = at - size if size <= at and content[at - size : at - size + 4] == _ENTRY else offset
    names = list(_names(content, start, at))
    return names if names or not size else None


def zip_media_type(head: bytes) -> str:
    """Return the content of a zip's first member `mimetype` (OpenDocument, EPUB); empty without one."""
    if not head.startswith(ZIP_HEADS[0]) or len(head) < 38:
        return ""
    method, size, name_size, extra_size = struct.unpack_from("<H8xI4xHH", head, 8)
    begin = 30 + name_size + extra_size
    if head[30 : 30 + name_size] != b"mimetype" or method or not 0 < size < 200:
        return ""
    return head[begin : begin + size].decode("ascii", "replace").strip()


def first_zip_name(head: bytes) -> str:
    """Return the name of a zip's first member; empty if its head does not have it whole."""
    if not head.startswith(ZIP_HEADS[0]) or len(head) < 30:
        return ""
    (name_size,) = struct.unpack_from("<H", head, 26)
    return head[30 : 30 + name_size].decode("utf-8", "replace")


def ole_holds(content: bytes, name: str) -> bool:
    """Return whether an OLE file has a stream or storage of this name."""
    written = name.encode("utf-16-le") + b"\x00\x00"
    at = content.find(written, _OLE_SECTOR)
    while at >= 0:
        if at % _OLE_NAME == 0:
            return True
        at = content.find(written, at + 1)
    return False


def first_ole_names(content: bytes) -> list[str]:
    """Return the names in the first sector of an OLE file's directory, without its root's (MS-CFB 2.2, 2.6.1)."""
    if len(content) < _OLE_SECTOR:
        return []
    shift, sector = *struct.unpack_from("<H", content, 30), *struct.unpack_from("<I", content, 48)
    if shift not in (9, 12):
        return []
    begin = (sector + 1) << shift
    entries = (content[at : at + _OLE_NAME] for at in range(begin + _OLE_NAME, begin + (1 << shift), _OLE_NAME))
    return [
        entry[: max(0, size - 2)].decode("utf-16-le", "replace")
        for entry in entries
        if len(entry) == _OLE_NAME and (size := struct.unpack_from("<H", entry, 64)[0]) <= 64
    ]


def _names(content: bytes, start: int, end: int) -> Iterator[str]:
    for _ in range(MOST_NAMES):
        if start < 0 or start + _ENTRY_SIZE > end or content[start : start + 4] != _ENTRY:
            return
        name_size, extra_size, comment_size = struct.unpack_from("<HHH", content, start + 28)
        name = content[start + _ENTRY_SIZE : start + _ENTRY_SIZE + name_size]
        yield name.decode("utf-8", "replace")
        start += _ENTRY_SIZE + name_size + extra_size + comment_size


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
    """Return why a file with these first bytes is not read; None if they are of nothing that is known."""
    for offset, signatures, what in _FOREIGN_HEADS:
        if head[offset:].startswith(signatures):
            return _FOREIGN_WORDS[what]
    return None


Kind = Literal[
    "plain",
    "markdown",
    "html",
    "table",
    "code",
    "rst",
    "pdf",
    "docx",
    "pptx",
    "xlsx",
    "odt",
    "ods",
    "odp",
    "rtf",
    "epub",
    "email",
    "outlook",
    "image",
    "archive",
]
TEXT_KINDS: frozenset[str] = frozenset({"plain", "markdown", "html", "table", "code", "rst"})
"""Kinds whose files are text as they are."""

DOCUMENT_KINDS: frozenset[str] = frozenset(
    {"pdf", "docx", "pptx", "xlsx", "odt", "ods", "odp", "rtf", "epub", "email", "outlook"}
)
"""Kinds of files that are documents of their own wherever they lie, not parts of other pages."""

_OFFICE, _OPEN = "application/vnd.openxmlformats-officedocument", "application/vnd.oasis.opendocument"
# Media type, what a file of the kind is called, and the endings of names. Pictures have several media types.
_KINDS: dict[Kind, tuple[str, str, str]] = {
    "plain": ("text/plain", "", "txt text log tex srt adoc asciidoc asc"),
    "markdown": ("text/markdown", "", "md markdown"),
    "html": ("text/html", "", "html htm xhtml"),
    "table": ("text/csv", "", "csv tsv"),
    "rst": ("text/x-rst", "", "rst"),
    "pdf": ("application/pdf", "a PDF", "pdf"),
    "docx": (f"{_OFFICE}.wordprocessingml.document", "a Word document", "docx dotx"),
    "pptx": (f"{_OFFICE}.presentationml.presentation", "a PowerPoint presentation", "pptx potx ppsx"),
    "xlsx": (f"{_OFFICE}.spreadsheetml.sheet", "an Excel workbook", "xlsx xltx"),
    "odt": (f"{_OPEN}.text", "an OpenDocument text", "odt ott"),
    "ods": (f"{_OPEN}.spreadsheet", "an OpenDocument spreadsheet", "ods ots"),
    "odp": (f"{_OPEN}.presentation", "an OpenDocument presentation", "odp otp"),
    "rtf": ("application/rtf", "an RTF document", "rtf"),
    "epub": ("application/epub+zip", "an EPUB book", "epub"),
    "email": ("message/rfc822", "", "eml"),
    "outlook": ("application/vnd.ms-outlook", "a message of Outlook", "msg"),
    "image": ("", "a picture", "png jpg jpeg tif tiff"),
    "archive": ("application/zip", "a zip archive", "zip"),
    "code": (
        "text/plain",
        "",
        "json jsonl yaml yml xml xsd xsl xslt wsdl toml ini cfg conf properties sql py pyi js mjs ts jsx tsx java "
        "kt kts scala groovy gradle go rs rb php pl lua r jl c h cc cpp hpp cs fs swift m sh bash zsh ps1 bat cmd "
        "css scss less vue proto thrift graphql tf hcl diff patch dockerfile makefile puml plantuml mmd",
    ),
}
KINDS = MappingProxyType({name: kind for kind, (_, _, names) in _KINDS.items() for name in names.split()})
ACCEPTS: tuple[str, ...] = tuple(f".{name}" for name in KINDS)
"""The endings that are read, as a file dialogue takes them."""
_HEAD = 4096
_PDF_WITHIN = 1024  # bytes; ISO 32000-1, annex H, note 13
_HTML = re.compile(
    rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--(?:[^-]|-(?!->))*-->\s*)*<(?:!doctype\s+html|html)\b", re.IGNORECASE | re.DOTALL
)
_RTF = re.compile(rb"\s{0,16}\{\\rtf")
_HEADER_LINE = re.compile(rb"(?:From |[A-Za-z][A-Za-z0-9-]{1,40}:)[^\n]{0,998}\n")
_EMAIL_ONLY = re.compile(
    rb"^(?:Received|Return-Path|Message-ID|MIME-Version|Delivered-To|DKIM-Signature):", re.MULTILINE | re.IGNORECASE
)
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_IMAGES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"II*\x00", b"MM\x00*")
READ_TYPES = (
    "Markdown, HTML, plain text, CSV, source code, PDF, Office and OpenDocument files, RTF, EPUB, e-mails, pictures of "
    "pages and zip archives are read"
)
_NOT_READ = f"files of this type are not read; {READ_TYPES}"
_MEMBERS: tuple[tuple[str, Kind], ...] = (("word/", "docx"), ("ppt/", "pptx"), ("xl/", "xlsx"))
_OPEN_KINDS: dict[str, Kind] = {"text": "odt", "spreadsheet": "ods", "presentation": "odp"}
_FOREIGN_MEMBERS = (
    ("visio/", "it is a Visio drawing; save it as PDF"),
    ("Index/Document.iwa", "it is a file of Apple's office programs; save it as PDF or in Microsoft's format"),
    ("META-INF/MANIFEST.MF", "it is a program, not a document"),
    ("AndroidManifest.xml", "it is a program, not a document"),
)
_OUTLOOK = (
    "__substg1.0_",
    "__nameid_version1.0",
    "__properties_version1.0",
    "__recip_version1.0_",
    "__attach_version1.0_",
)
"""How the names of all streams and storages of a message begin (MS-OXMSG 2.2)."""
_OLD_OFFICE = (
    ("WordDocument", "it is in Word's format of before 2007; save it as .docx"),
    ("PowerPoint Document", "it is in PowerPoint's format of before 2007; save it as .pptx"),
    ("Workbook", "it is in Excel's format of before 2007; save it as .xlsx"),
    ("Book", "it is in Excel's format of before 2007; save it as .xlsx"),
)
_OLD_NAMES = MappingProxyType({"doc": ".docx", "dot": ".docx", "ppt": ".pptx", "pps": ".pptx", "xls": ".xlsx"})
_MACRO_NAMES = MappingProxyType(
    {"docm": ".docx", "dotm": ".docx", "pptm": ".pptx", "ppsm": ".pptx", "xlsm": ".xlsx", "xlsb": ".xlsx"}
)


PASSWORD = "it has a password: remove it, and add the file again"


class KindError(Exception):
    """A file of no kind that is read; the message says why."""


class BrokenFileError(KindError):
    """A file of a kind that is read which cannot be opened: broken, or with macros."""


def extension_of(name: str) -> str:
    """Return `txt` of `notes.TXT`, and the whole name of a `Dockerfile`."""
    stem, dot, extension = name.lower().rpartition(".")
    return extension if dot and stem else name.lower()


def kind_by_name(name: str) -> Kind | None:
    """Return a file's kind by its name; None for kinds without text (film, programs)."""
    return KINDS.get(extension_of(name))


def is_document_name(name: str) -> bool:
    """Return whether a file's name is that of a document, one that is refused with a reason included."""
    extension = extension_of(name)
    return kind_by_name(name) in DOCUMENT_KINDS or extension in _OLD_NAMES or extension in _MACRO_NAMES


def kind_of(name: str, head: bytes) -> Kind:
    """Return a file's apparent kind, by its first bytes and then by its name; `kind_in` decides by the whole content.
    `name`: the file's name; it decides among kinds of text, and about containers whose head is inconclusive. `head`:
    the first 4,096 bytes, or fewer. Raises KindError: the format is not supported, or contradicts the name."""
    if head.startswith(ZIP_HEADS):
        return _zip_by_head(name, head)
    if head.startswith(OLE_HEAD):
        return _ole(name, head)
    return _bare(name, head)


def kind_in(name: str, content: bytes) -> Kind:
    """Return a file's kind, by its whole content; its name decides among kinds of text only. Raises KindError: the
    format is not supported, or contradicts the name; BrokenFileError: the format is supported, but the file cannot be
    read."""
    if content.startswith(ZIP_HEADS):
        return _zip(name, content)
    if content.startswith(OLE_HEAD):
        return _ole(name, content)
    return _bare(name, content[:_HEAD])


def _bare(name: str, head: bytes) -> Kind:
    named = kind_by_name(name)
    if (found := _by_signature(head, named in TEXT_KINDS)) is not None:
        return found
    if named is not None and named not in TEXT_KINDS and named != "email":
        raise KindError(f"it is not {_KINDS[named][1] or named}, whatever its name says")
    if b"\x00" in head and not head.startswith(_UTF16):
        raise KindError(foreign(head) or ("it is not text, whatever its name says" if named else _NOT_READ))
    if named in (None, "plain") and _is_email(head):
        return "email"
    if named is None and "." in name.strip("."):
        if _HTML.match(head) and extension_of(name) in _OLD_NAMES:  # what programs export as Word or Excel
            return "html"
        raise KindError(foreign(head) or _NOT_READ)
    if named in (None, "plain") and _HTML.match(head):
        return "html"
    return named or "plain"


def _by_signature(head: bytes, is_named_text: bool) -> Kind | None:
    """Return the kind that first bytes show; a text may speak of a PDF's."""
    if head.lstrip().startswith(b"%PDF-") or (b"%PDF-" in head[:_PDF_WITHIN] and not is_named_text):
        return "pdf"
    if _RTF.match(head):
        return "rtf"
    if head.startswith(_IMAGES):
        return "image"
    return None


def _is_email(head: bytes) -> bool:
    """Return whether a text begins with two header lines, and has one that only e-mails have."""
    first = _HEADER_LINE.match(head)
    return bool(first and _HEADER_LINE.match(head, first.end()) and _EMAIL_ONLY.search(head.partition(b"\n\n")[0]))


def _zip_by_head(name: str, head: bytes) -> Kind:
    _refuse_macros(name)
    if (media := zip_media_type(head)) and (kind := _by_media_type(media)):
        return kind
    named, first = kind_by_name(name), first_zip_name(head)
    if named is not None and named in _IN_ZIP:
        return named
    return next((kind for prefix, kind in _MEMBERS if first.startswith(prefix)), "archive")


_IN_ZIP: frozenset[Kind | None] = frozenset({"docx", "pptx", "xlsx", "odt", "ods", "odp", "epub", "archive"})


def _zip(name: str, content: bytes) -> Kind:
    names = zip_names(content)
    if names is None:
        raise BrokenFileError("it is broken: its end is missing")
    _refuse_macros(name)
    if (media := zip_media_type(content[:_HEAD])) and (kind := _by_media_type(media)):
        return kind
    held = set(names)
    if "META-INF/container.xml" in held:
        return "epub"
    for member, why in _FOREIGN_MEMBERS:
        if member in held or (member.endswith("/") and any(one.startswith(member) for one in names)):
            raise KindError(why)
    if "[Content_Types].xml" in held:
        return _office(names)
    if kind_by_name(name) in ("odt", "ods", "odp") and "content.xml" in held:
        return KINDS[extension_of(name)]
    return "archive"


def _office(names: list[str]) -> Kind:
    for prefix, kind in _MEMBERS:
        if any(name.startswith(prefix) for name in names):
            if any(name.lower().endswith("vbaproject.bin") for name in names):
                raise BrokenFileError(f"it holds macros; save it as .{kind}, which has none")
            if "xl/workbook.bin" in names:
                raise KindError("it is a binary Excel workbook; save it as .xlsx")
            return kind
    raise KindError(_NOT_READ)


def _by_media_type(media: str) -> Kind | None:
    if media == _KINDS["epub"][0]:
        return "epub"
    if not media.startswith(f"{_OPEN}."):
        return None
    kind = _OPEN_KINDS.get(media.removeprefix(f"{_OPEN}.").removesuffix("-template"))
    if kind is None:
        raise KindError("OpenDocument files other than texts, spreadsheets and presentations are not read")
    return kind


def _ole(name: str, content: bytes) -> Kind:
    """Return the kind of an OLE file, or of the head of one; a message's attachments may be of any kind."""
    if extension_of(name) == "msg" or any(one.startswith(_OUTLOOK) for one in first_ole_names(content)):
        return "outlook"
    raise _refused_ole(name, content)


def _refused_ole(name: str, content: bytes) -> KindError:
    if ole_holds(content, "EncryptedPackage"):
        return KindError(PASSWORD)
    for stream, why in _OLD_OFFICE:
        if ole_holds(content, stream):
            return KindError(why)
    if better := _OLD_NAMES.get(extension_of(name)):
        return KindError(f"it is in Office's format of before 2007; save it as {better}")
    if kind_by_name(name) in _IN_ZIP:
        return BrokenFileError("it is encrypted or in Office's format of before 2007; save it anew without a password")
    return KindError(_NOT_READ)


def _refuse_macros(name: str) -> None:
    if better := _MACRO_NAMES.get(extension_of(name)):
        raise BrokenFileError(f"it may hold macros; save it as {better}")


def media_type(kind: str) -> str:
    """Return the media type of a kind; of a picture's that of any file, because there are several."""
    return _KINDS.get(kind, ("", "", ""))[0] or "application/octet-stream"  # type: ignore[call-overload]
