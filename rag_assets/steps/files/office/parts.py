"""Office Open XML: the zip files that such documents are, opened within bounds; words of drawings and equations;
what a paragraph of a Word document is by its own properties, its style and those below it."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from posixpath import dirname, join, normpath
from typing import NamedTuple
from urllib.parse import unquote
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from rag_assets.steps.files.office.block_writer import BlockWriter, Line
from rag_assets.steps.files.records import FileError
from rag_assets.steps.formats.blocks import STRUCK, Cell, Mark, clean
from rag_assets.steps.formats.element_tree import Element
from rag_serving.documents.kinds import PASSWORD

LEVELS = 9
_PLACE = re.compile(r"%([1-9])")
_ROMAN = (
    *((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl")),
    *((10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i")),
)

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_DEPTH_MAX = 30  # styles based on styles
_LEFT_OUT = {"vanish": "hidden text", "strike": STRUCK, "dstrike": STRUCK}
SHIFTS: dict[str, Mark] = {"superscript": "raised", "subscript": "lowered"}

_HEADING_NAME = re.compile(  # programs that write no outline level name styles in the language they run in
    r"(?:heading|überschrift|titre|título|titolo|kop|rubrik|overskrift|otsikko|nagłówek|nadpis|başlık|заголовок|"
    r"标题|標題|見出し|제목)\s?([1-9])",
    re.IGNORECASE,
)
_TITLES = frozenset({"title", "titel", "titre", "título", "titolo"})
_TOC_NAME = re.compile(r"(?:toc|contents|index|table of figures|verzeichnis) ?(?:heading|\d)?", re.IGNORECASE)
_CODE_NAME = re.compile(
    r"(?:html preformatted|preformatted text|source code|code|code block|macro|listing)", re.IGNORECASE
)


class ParagraphKind(NamedTuple):
    """The kind of a paragraph: a heading's level (0: none), its list, the reason to leave it out, whether it is
    generated, code."""

    level: int = 0
    list_id: str = ""  # "" or "0": in no list
    list_level: int = 0
    left_out: str = ""
    contents: bool = False
    code: bool = False


@dataclass
class _WordStyle:
    name: str
    based_on: str
    outline: int | None = None  # 0: level 1; 9: body text
    list_id: str | None = None
    list_level: int | None = None
    switches: dict[str, bool] = field(default_factory=dict)  # by the reason that they are
    shift: str = ""


class Styles:
    """The styles of one document; without a part of styles there is none, which is no fault."""

    def __init__(self, tree: Element | None) -> None:
        self._styles: dict[str, _WordStyle] = {}
        self._default = ""
        for node in () if tree is None else tree.iterchildren(f"{W}style"):
            name = node.get(f"{W}styleId", "")
            style = _WordStyle(value_of(node, "name").strip(), value_of(node, "basedOn"))
            if (properties := node.find(f"{W}pPr")) is not None:
                _properties(style, properties)
            self._styles[name] = style if (run := node.find(f"{W}rPr")) is None else _look(style, run)
            if node.get(f"{W}type") == "paragraph" and is_on(node.get(f"{W}default"), absent=False):
                self._default = name

    def paragraph(self, properties: Element | None) -> ParagraphKind:
        """Return the kind of a paragraph with these properties (`w:pPr`)."""
        own = _WordStyle("", "")
        style_id = self._default
        if properties is not None:
            _properties(own, properties)
            style_id = value_of(properties, "pStyle") or style_id
        chain = [own, *self._chain(style_id)]
        outline = next((style.outline for style in chain if style.outline is not None), None)
        names = [style.name for style in chain if style.name]
        list_id = next((style.list_id for style in chain if style.list_id is not None), "")
        list_level = next((style.list_level for style in chain if style.list_level is not None), 0)
        left_out = _left_out(chain[1:], "")
        contents = bool(names) and bool(_TOC_NAME.fullmatch(names[0]))
        return ParagraphKind(heading_level(outline, names), list_id, list_level, left_out, contents, is_code(names))

    def left_out(self, run: Element | None, around: str) -> str:
        """Return why a run of these properties (`w:rPr`) is left out: as it says, as its style says, or the paragraph's
        style (`around`)."""
        return around if run is None else _left_out(self._looks(run), around)

    def mark(self, run: Element | None) -> Mark:
        """Return whether a run is raised or lowered."""
        shifts = () if run is None else (style.shift for style in self._looks(run))
        return SHIFTS.get(next(filter(None, shifts), ""), "")

    def _looks(self, run: Element) -> list[_WordStyle]:
        return [_look(_WordStyle("", ""), run), *self._chain(value_of(run, "rStyle"))]

    def _chain(self, style_id: str) -> list[_WordStyle]:
        """Return a style and those below it; a ring of styles ends where it begins."""
        chain: list[_WordStyle] = []
        while (style := self._styles.get(style_id)) is not None and len(chain) < _DEPTH_MAX:
            chain.append(style)
            style_id = style.based_on
        return chain


def value_of(element: Element, name: str) -> str:
    """Return the value of a property: of the child of this name, or path."""
    node = element.find(f"{W}{name}")
    return "" if node is None else node.get(f"{W}val", "")


def is_on(value: str | None, absent: bool = True) -> bool:
    """Return whether a switch is on; a property without a value is."""
    return absent if value is None else value not in ("0", "false", "off", "none")


def small_int(value: str | None) -> int | None:
    """Return a whole number of at most nine digits; None for all else."""
    return int(value) if value and len(value) < 10 and value.isascii() and value.isdigit() else None


def is_code(names: list[str]) -> bool:
    """Return whether paragraphs of a style of these names are code."""
    return any(_CODE_NAME.fullmatch(name) for name in names)


def _look(style: _WordStyle, run: Element) -> _WordStyle:
    for name, reason in _LEFT_OUT.items():
        if (switch := run.find(f"{W}{name}")) is not None:
            style.switches[reason] = style.switches.get(reason, False) or is_on(switch.get(f"{W}val"))
    style.shift = value_of(run, "vertAlign")
    return style


def _left_out(chain: list[_WordStyle], around: str) -> str:
    """Return why text of these styles, the nearest first, is left out; if none says so, as the text around it."""
    for reason in ("hidden text", STRUCK):
        found = next((style.switches[reason] for style in chain if reason in style.switches), None)
        if found or (found is None and around == reason):
            return reason
    return ""


def _properties(style: _WordStyle, properties: Element) -> None:
    style.outline = small_int(value_of(properties, "outlineLvl"))
    numbering = properties.find(f"{W}numPr")
    if numbering is not None:
        style.list_id = value_of(numbering, "numId") or None
        style.list_level = small_int(value_of(numbering, "ilvl"))


def heading_level(outline: int | None, names: list[str]) -> int:
    """Return the level of a heading by its outline level, else by the name of its style."""
    if outline is not None:
        return outline + 1 if outline < 9 else 0
    for name in names:
        if match := _HEADING_NAME.fullmatch(name):
            return int(match[1])
        if name.lower() in _TITLES:
            return 1
    return 0


@dataclass
class _NumberLevel:
    form: str = "decimal"
    text: str = ""
    start: int = 1
    restart: int | None = None  # the level (from 1) below which it begins anew; 0: never; None: every lower one


@dataclass
class _List:
    """A list's levels, and the counters that all its instances go on with."""

    levels: dict[int, _NumberLevel]
    counts: dict[int, int] = field(default_factory=dict)


class Numbering:
    """Counts the numbered paragraphs of one document in its order."""

    def __init__(self, tree: Element | None) -> None:
        self._lists: dict[str, _List] = {}
        self._overrides: dict[str, dict[int, int]] = {}
        self._started: set[tuple[str, int]] = set()
        if tree is not None:
            abstract: dict[str, _List] = {}
            styled: dict[str, _List] = {}
            links: dict[str, str] = {}
            for node in tree.iterchildren(f"{W}abstractNum"):
                name = node.get(f"{W}abstractNumId", "")
                abstract[name] = _List(dict(map(_level, node.iterchildren(f"{W}lvl"))))
                if style := value_of(node, "styleLink"):
                    styled[style] = abstract[name]
                if style := value_of(node, "numStyleLink"):
                    links[name] = style
            for node in tree.iterchildren(f"{W}num"):
                name, base = node.get(f"{W}numId", ""), value_of(node, "abstractNumId")
                found = styled.get(links[base]) if base in links else abstract.get(base)
                if found is not None:
                    self._lists[name] = self._with_overrides(name, node, found)

    def _with_overrides(self, name: str, node: Element, base: _List) -> _List:
        """Return the list of an instance: the shared one, unless it defines levels of its own."""
        levels: dict[int, _NumberLevel] = {}
        for override in node.iterchildren(f"{W}lvlOverride"):
            place = small_int(override.get(f"{W}ilvl")) or 0
            if (own := override.find(f"{W}lvl")) is not None:
                levels[place] = _level(own)[1]
            start = small_int(value_of(override, "startOverride"))
            if start is not None:
                self._overrides.setdefault(name, {})[place] = start
        return _List({**base.levels, **levels}, base.counts) if levels else base

    def label(self, list_id: str, level: int) -> tuple[str, bool] | None:
        """Count a paragraph of a list; return its number as shown and whether it is only a bullet.

        None if there is no such list.
        """
        numbers = self._lists.get(list_id)
        if numbers is None:
            return None
        level = min(level, LEVELS - 1)
        definition = numbers.levels.get(level, _NumberLevel(form="bullet"))
        first = (list_id, level) not in self._started
        self._started.add((list_id, level))
        override = self._overrides.get(list_id, {}).get(level)
        if first and override is not None:
            numbers.counts[level] = override
        else:
            numbers.counts[level] = numbers.counts.get(level, definition.start - 1) + 1
        for lower in range(level + 1, LEVELS):
            restart = numbers.levels.get(lower, _NumberLevel()).restart
            if restart is None or (restart and level < restart):
                numbers.counts.pop(lower, None)
        if definition.form in ("bullet", "none") or not _PLACE.search(definition.text):
            return definition.text if definition.form == "none" else "-", definition.form != "none"
        return _PLACE.sub(lambda place: self._shown(numbers, int(place[1]) - 1, level), definition.text).strip(), False

    def _shown(self, numbers: _List, place: int, level: int) -> str:
        definition = numbers.levels.get(place, _NumberLevel())
        count = numbers.counts.get(place)
        if count is None:
            count = numbers.counts[place] = definition.start
        legal = place < level and numbers.levels.get(level, definition).form == "decimal" and definition.form == "none"
        return number_text(count, "decimal" if legal else definition.form)


def _level(node: Element) -> tuple[int, _NumberLevel]:
    start, restart = small_int(value_of(node, "start")), small_int(value_of(node, "lvlRestart"))
    form = value_of(node, "numFmt") or "decimal"
    definition = _NumberLevel(form, value_of(node, "lvlText"), 1 if start is None else start, restart)
    return small_int(node.get(f"{W}ilvl")) or 0, definition


def number_text(count: int, form: str) -> str:
    """Return a number in a form: decimal, letters or Roman; other forms as decimal."""
    if form == "decimalZero":
        return f"{count:02}"
    text = ""
    if 1 <= count <= 3999 and form in ("lowerLetter", "upperLetter"):
        text = chr(ord("a") + (count - 1) % 26) * ((count - 1) // 26 + 1)
    elif 1 <= count <= 3999 and form in ("lowerRoman", "upperRoman"):
        left = count
        for value, letters in _ROMAN:
            text += letters * (left // value)
            left %= value
    return (text.upper() if form.startswith("upper") else text) or str(count)


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

_STRICT = re.compile(
    rb"http://purl\.oclc\.org/ooxml/"
    rb"(wordprocessingml|spreadsheetml|presentationml|drawingml|officeDocument(?=/relationships|/math))/"
)
"""Begins names in the strict form of Office Open XML."""
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
        """Return the bytes of a part; None if there is none. Raises FileError: it is broken, or above `PART_MAX`."""
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
    Raises FileError: it is no XML, declares a document type, or is nested too deep."""
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
    return _STRICT.sub(rb"http://schemas.openxmlformats.org/\1/2006/", content)


def pulled(package: Package, name: str, *tags: str) -> Iterator[Element]:
    """Yield the elements of these tags of a part as they end, each freed before the next one. Raises FileError: the
    part is no XML; elements before the fault were yielded."""
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
