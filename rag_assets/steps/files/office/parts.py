"""Office Open XML: the zip files that such documents are, opened within bounds; words of drawings and equations."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from io import BytesIO
from posixpath import dirname, join, normpath
from typing import NamedTuple
from urllib.parse import unquote
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from rag_assets.steps.files.office.block_writer import BlockWriter, Line
from rag_assets.steps.files.office.word_styles import small_int
from rag_assets.steps.files.records import FileError
from rag_assets.steps.formats.blocks import Cell, clean
from rag_assets.steps.formats.element_tree import Element
from rag_assets.steps.formats.text_marks import Mark
from rag_serving.documents.kinds import PASSWORD

M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"

A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
DGM = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}"
_ROWS_MAX = 10_000
_SERIES_MAX = 200


def write_chart(writer: BlockWriter, chart: Element | None) -> None:
    """Write the title of a chart and the values that are stored with it as a table; count it lost if none is."""
    series = [] if chart is None else list(chart.iter(f"{C}ser"))[:_SERIES_MAX]
    values = [_points(node, "val", "yVal") for node in series]
    if chart is None or not any(values):
        writer.count("chart", "lost")
        return
    title = chart.find(f"{C}chart/{C}title")
    writer.text("" if title is None else _words(writer, title))
    header = [Cell("", header=True)]
    for node in series:
        name = node.find(f"{C}tx")
        words = () if name is None else (value.text or "" for value in name.iter(f"{C}v"))
        header.append(Cell(clean(" ".join(words)), header=True))
    categories = next(filter(None, (_points(node, "cat", "xVal") for node in series)), {})
    indexes = sorted({index for column in (categories, *values) for index in column})[:_ROWS_MAX]
    rows = [[Cell(column.get(index, "")) for column in (categories, *values)] for index in indexes]
    writer.table([header, *rows], 1)
    writer.count("chart", "rendered")


def write_diagram(writer: BlockWriter, data: Element | None) -> None:
    """Write the words of a diagram (SmartArt) as a list; count it lost if there are none."""
    points = [] if data is None else [_words(writer, point) for point in data.iter(f"{DGM}t")]
    writer.end_list()
    for point in points:
        writer.item(Line(point), "-", 0)
    writer.end_list()
    writer.count("diagram", "rendered" if any(points) else "lost")


def _points(series: Element, *names: str) -> dict[int, str]:
    """Return the stored values of a series by their index; of the first element that there is."""
    node = next((child for name in names if (child := series.find(f"{C}{name}")) is not None), None)
    points: dict[int, str] = {}
    for point in () if node is None else node.iter(f"{C}pt"):
        index = small_int(point.get("idx"))
        if index is not None:
            points.setdefault(index, clean(point.findtext(f"{C}v") or ""))
    return points


def _words(writer: BlockWriter, element: Element) -> str:
    return clean(" ".join(paragraph_text(writer, part) for part in element.iter(f"{A}p")))


def paragraph_text(writer: BlockWriter, paragraph: Element) -> str:
    """Return the text of the runs in a paragraph."""
    line = Line()
    for text in paragraph.iter(f"{A}t"):
        write_run(writer, line, text.getparent())
    return " ".join(line.paragraphs())


def write_run(writer: BlockWriter, line: Line, run: Element) -> None:
    """Append the text of a run as its properties mark it."""
    properties = run.find(f"{A}rPr")
    strike, baseline = ("", "") if properties is None else (properties.get(name, "") for name in ("strike", "baseline"))
    shift: Mark = "lowered" if baseline[:1] == "-" else "raised" if baseline.strip("0%.") else ""
    writer.write(line, run.findtext(f"{A}t") or "", "struck" if strike not in ("", "noStrike") else shift)


def description_of(node: Element, tag: str) -> str:
    """Return the alternative text of a drawing: that of its first element of a tag."""
    return clean(next((each.get("descr", "") for each in node.iter(tag)), ""))


def equation_text(element: Element) -> str:
    """Return an equation's text, read from left to right: `(a+b)/c`, `x^2`, `√(n)`."""
    name = str(element.tag)
    if name == f"{M}t":
        return element.text or ""
    if name == f"{M}f":
        return f"{_part(element, 'num')}/{_part(element, 'den')}"
    if name == f"{M}rad":
        return f"{_part(element, 'deg', bare=True)}√{_part(element, 'e')}"
    if name == f"{M}d":
        return f"({', '.join(map(_inside, element.iterchildren(f'{M}e')))})"
    if name == f"{M}nary":
        sign = element.find(f"{M}naryPr/{M}chr")
        symbol = "∫" if sign is None else sign.get(f"{M}val", "")
        return f"{symbol}{_scripts(element)} {_part(element, 'e', bare=True)}"
    if name in (f"{M}sSup", f"{M}sSub", f"{M}sSubSup"):
        return f"{_part(element, 'e', bare=True)}{_scripts(element)}"
    return _inside(element)


def _inside(element: Element) -> str:
    return "".join(equation_text(child) for child in element if isinstance(child.tag, str))


def _part(element: Element, name: str, bare: bool = False) -> str:
    node = element.find(f"{M}{name}")
    text = "" if node is None else _inside(node)
    return text if bare or len(text) < 2 or text.isalnum() else f"({text})"


def _scripts(element: Element) -> str:
    below, above = _part(element, "sub"), _part(element, "sup")
    return (f"_{below}" if below else "") + (f"^{above}" if above else "")


PART_MAX = 128 * 1024 * 1024
"""Bytes of one part, unpacked."""
READ_MAX = 512 * 1024 * 1024
"""Bytes of all parts that are read of one file, unpacked."""
MEMBERS_MAX = 20_000
STREAM_MAX = 1024 * 1024 * 1024
"""Bytes of a part that is read piece by piece."""
CHUNK = 256 * 1024
_LOCAL_HEADER = 30  # bytes; the last four are the lengths of name and extra field

_STRICT = tuple(
    (f"http://purl.oclc.org/ooxml/{name}".encode(), f"http://schemas.openxmlformats.org/{usual}".encode())
    for name, usual in (
        *(
            (f"{name}/", f"{name}/2006/")
            for name in ("wordprocessingml", "spreadsheetml", "presentationml", "drawingml")
        ),
        *((f"officeDocument/{name}", f"officeDocument/2006/{name}") for name in ("relationships", "math")),
    )
)
"""Names in the strict form of Office Open XML, and the usual ones."""
_BROKEN = (BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError, OSError)


class Relation(NamedTuple):
    """One relation of a part: the last word of its type, and its target part or address."""

    kind: str
    target: str
    external: bool


def target_of(relations: Mapping[str, Relation], kind: str) -> str:
    """Return the target of the first relation of a kind; empty if there is none."""
    return next((each.target for each in relations.values() if each.kind == kind), "")


class Package:
    """The parts of one file. Raises FileError if it is protected, broken, or more than the bounds allow."""

    def __init__(self, content: bytes, noun: str) -> None:
        try:
            self._content = content
            self._zip = ZipFile(BytesIO(content))
            members = self._zip.infolist()
        except _BROKEN as error:
            raise FileError(f"it is not a readable {noun}: {error}") from None
        if len(members) > MEMBERS_MAX:
            raise FileError(f"it has more than {MEMBERS_MAX:,} parts")
        if any(member.flag_bits & 1 for member in members):
            raise FileError(PASSWORD)
        self._noun = noun
        self._members: dict[str, ZipInfo] = {member.filename.lstrip("/").lower(): member for member in members}
        self._left = READ_MAX

    def has(self, name: str) -> bool:
        """Return whether there is a part of this name; case does not count."""
        return name.lower() in self._members

    def part(self, name: str) -> bytes | None:
        """Return the bytes of a part; None if there is none.

        Raises FileError: it is broken, or larger than `PART_MAX`.
        """
        member = self._members.get(name.lower())
        if member is None:
            return None
        if member.file_size > min(PART_MAX, self._left):
            raise FileError(f"its part {name!r} is larger than what is unpacked")
        if member.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise FileError(f"its part {name!r} is packed in a way that no office program uses")
        try:
            content = self._zip.read(member)  # never more than `file_size`, whatever is packed
        except RuntimeError:  # zipfile's word for a part that wants a password
            raise FileError(PASSWORD) from None
        except _BROKEN as error:
            raise FileError(f"it is not a readable {self._noun}: its part {name!r} is broken: {error}") from None
        self._left -= len(content)
        return content

    def chunks(self, name: str) -> Iterator[bytes]:
        """Yield the bytes of a part, at most `STREAM_MAX`, in pieces. Raises FileError: it is broken."""
        member = self._members.get(name.lower())
        if member is None:
            return
        if member.compress_type != ZIP_DEFLATED:
            yield self.part(name) or b""
            return
        begin = member.header_offset + _LOCAL_HEADER
        lengths = self._content[begin - 4 : begin]
        begin += int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")
        packed = self._content[begin : begin + member.compress_size]
        inflating, left, checksum = zlib.decompressobj(-zlib.MAX_WBITS), STREAM_MAX, 0
        try:
            while left > 0 and not inflating.eof and (chunk := inflating.decompress(packed, CHUNK)):
                yield chunk
                packed, left = inflating.unconsumed_tail, left - len(chunk)
                checksum = zlib.crc32(chunk, checksum)
        except zlib.error as error:
            raise FileError(f"it is not a readable {self._noun}: its part {name!r} is broken: {error}") from None
        if left > 0 and (not inflating.eof or checksum != member.CRC):
            raise FileError(f"it is not a readable {self._noun}: its part {name!r} is broken")

    def xml(self, name: str) -> Element | None:
        """Return the tree of a part; None if there is none. Raises FileError if it is not XML, or too much."""
        content = self.part(name) if name else None
        return None if content is None else safe_xml(content, name)

    def relations(self, name: str) -> dict[str, Relation]:
        """Return the relations of a part ("": of the package) by their ids."""
        folder = dirname(name)
        tree = self.xml(join(folder, "_rels", f"{name[len(folder) :].lstrip('/')}.rels"))
        relations = {}
        for node in () if tree is None else tree:
            target, external = node.get("Target", ""), node.get("TargetMode") == "External"
            if not external:
                target = normpath(join(folder, unquote(target))).lstrip("/")
            relations[node.get("Id", "")] = Relation(node.get("Type", "").rpartition("/")[2], target, external)
        return relations

    def main_part(self, default: str) -> str:
        """Return the name of the part that the package says is the document itself, else the usual one."""
        for relation in self.relations("").values():
            if relation.kind == "officeDocument" and self.has(relation.target):
                return relation.target
        return default


def safe_xml(content: bytes, name: str) -> Element:
    """Return the tree of XML that comes from elsewhere: no entity is resolved, nothing fetched; comments are gone.

    Raises FileError: it is no XML, declares a document type, or is nested too deep.
    """
    from lxml import etree

    content = _usual(content)
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True, remove_pis=True
    )
    try:
        root = etree.fromstring(content, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise FileError(f"its part {name!r} cannot be read: {str(error)[:200]}") from None
    if root.getroottree().docinfo.doctype:
        raise FileError(f"its part {name!r} declares a document type, which no office program writes")
    return root


def _usual(content: bytes) -> bytes:
    """Return XML with the names that the strict form of Office Open XML has replaced by the usual ones."""
    for strict, usual in _STRICT:
        if strict in content:
            content = content.replace(strict, usual)
    return content


def pulled(package: Package, name: str, *tags: str) -> Iterator[Element]:
    """Yield the elements of these tags of a part as they end, each freed before the next one.

    Raises FileError: the part is no XML; elements before the fault were yielded.
    """
    from lxml import etree

    if not package.has(name):
        return
    parser = etree.XMLPullParser(
        events=("end",), tag=tags, resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True
    )
    try:
        for number, chunk in enumerate(package.chunks(name)):
            if b"<!DOCTYPE" in chunk[: 4096 if number == 0 else 0]:
                raise FileError(f"its part {name!r} declares a document type, which no office program writes")
            parser.feed(chunk if number else _usual(chunk))
            for _, element in parser.read_events():
                yield element
                element.clear()
                while element.getprevious() is not None:
                    del element.getparent()[0]
    except (etree.XMLSyntaxError, ValueError) as error:
        raise FileError(f"its part {name!r} cannot be read: {str(error)[:200]}") from None
