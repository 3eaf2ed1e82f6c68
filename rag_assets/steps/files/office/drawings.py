"""Words of drawings and equations in Office Open XML.

Belongs here: the words of a paragraph as they are marked, the stored words and values of a chart, those of a diagram,
equations as a line of text. Does not belong here: the position of a drawing in its document, MathML.
"""

from __future__ import annotations

from rag_assets.steps.files.office.block_writer import BlockWriter, Line
from rag_assets.steps.files.office.word_styles import small_int
from rag_assets.steps.formats.blocks import clean
from rag_assets.steps.formats.element_tree import Element
from rag_assets.steps.formats.tables import Cell
from rag_assets.steps.formats.text_marks import Mark

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
    names = [_name(node) for node in series]
    categories = next(filter(None, (_points(node, "cat", "xVal") for node in series)), {})
    indexes = sorted({index for column in (categories, *values) for index in column})[:_ROWS_MAX]
    rows = [[Cell("", header=True), *(Cell(name, header=True) for name in names)]]
    for index in indexes:
        rows.append([Cell(categories.get(index, "")), *(Cell(column.get(index, "")) for column in values)])
    writer.table(rows, 1)
    writer.count("chart", "rendered")


def write_diagram(writer: BlockWriter, data: Element | None) -> None:
    """Write the words of a diagram (SmartArt) as a list; count it lost if there are none."""
    points = [] if data is None else [_words(writer, point) for point in data.iter(f"{DGM}t")]
    points = [point for point in points if point]
    writer.end_list()
    for point in points:
        writer.item(Line(point), "-", 0)
    writer.end_list()
    writer.count("diagram", "rendered" if points else "lost")


def _name(series: Element) -> str:
    node = series.find(f"{C}tx")
    return "" if node is None else clean(" ".join(value.text or "" for value in node.iter(f"{C}v")))


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
