"""Writes PDF files whose pages have words at given places, by the letter of ISO 32000."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Line(NamedTuple):
    """Words at a place: points from the left and from the top, before they are drawn through a matrix of their own;
    text beyond Latin-1 is given glyph by glyph, from the left."""

    x: float
    y: float
    text: str
    size: float = 10
    bold: bool = False
    drawn: str = ""


def paragraph(x: float, y: float, *texts: str, pitch: float = 12) -> list[Line]:
    """Lines below each other."""
    return [Line(x, y + at * pitch, text) for at, text in enumerate(texts)]


def ruled(xs: Sequence[float], ys: Sequence[float]) -> list[tuple[float, float, float, float]]:
    """Thin boxes around the cells of a grid: left, top, right, bottom."""
    across = [(xs[0], y, xs[-1], y + 1) for y in ys]
    return [*across, *((x, ys[0], x + 1, ys[-1]) for x in xs)]


def laid_out(
    *pages: Sequence[Line],
    turned: int = 0,
    outline: Sequence[tuple[str, int]] = (),
    boxes: Sequence[tuple[float, float, float, float]] = (),
    drawn: str = "1 0 0 1 0 0",
    struck: Sequence[tuple[float, float, float, float]] = (),
    in_form: bool = False,
) -> bytes:
    """A PDF of these pages. `turned`: degrees that each page is shown turned by; `outline`: titles and their pages;
    `boxes`: filled on each page; `drawn`: the matrix that all of a page is drawn through; `struck`: what annotations
    of each page strike out; `in_form`: what a page shows is drawn by a form XObject."""
    fonts = "/F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> "
    fonts += "/F2 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold >> "
    first = 4 + len(outline)
    signs = f"/ToUnicode {first + 2 * len(pages)} 0 R"
    fonts += f"/F3 << /Type /Font /Subtype /Type0 /BaseFont /Any /Encoding /Identity-H {_GLYPHS} {signs} >>"
    kids = " ".join(f"{first + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        f"<< /Type /Catalog /Pages 2 0 R {'/Outlines 3 0 R' if outline else ''} >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        f"<< /Type /Outlines /First 4 0 R /Last {3 + len(outline)} 0 R >>" if outline else "<< >>",
    ]
    for at, (title, page) in enumerate(outline):
        ahead = f"/Next {5 + at} 0 R" if at + 1 < len(outline) else ""
        target = f"/Dest [{first + 2 * (page - 1)} 0 R /Fit]"
        objects.append(f"<< /Title ({_escaped(title)}) /Parent 3 0 R {ahead} {target} >>")
    for number, lines in enumerate(pages):
        filled = "".join(f"{x0} {792 - y1} {x1 - x0} {y1 - y0} re f " for x0, y0, x1, y1 in boxes)
        stream = f"{drawn} cm {filled}" + " ".join(map(_shown, lines))
        place = first + 2 * number + 1
        shows = first + 2 * len(pages) + 1 if in_form else place
        form = (
            f"/Type /XObject /Subtype /Form /BBox [0 0 612 792] /Resources << /Font << {fonts} >> >>" if in_form else ""
        )
        box = f"/MediaBox [0 0 612 792] /Rotate {turned} /Contents {shows} 0 R"
        box += f" /Annots [{' '.join(map(_strike_out, struck))}]"
        objects += [
            f"<< /Type /Page /Parent 2 0 R {box} /Resources << /XObject << /Fm {place} 0 R >>"
            f" /Font << {fonts} >> >> >>",
            f"<< {form} /Length {len(stream)} >>\nstream\n{stream}\nendstream",
        ]
    objects += [f"<< /Length {len(said)} >>\nstream\n{said}\nendstream" for said in (_SIGNS, "/Fm Do")]
    content, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, start=1):
        places.append(len(content))
        content += f"{number} 0 obj\n{body}\nendobj\n".encode("latin-1")
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    trailer = f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(content)}\n%%EOF\n"
    return content + f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{trailer}".encode()


_SIGNS = (
    "/CIDInit /ProcSet findresource begin begincmap /CMapName /Any def 1 begincodespacerange <0000> <FFFF>"
    " endcodespacerange 256 beginbfrange "
    + "".join(f"<{high:02X}00> <{high:02X}FF> <{high:02X}00> " for high in range(256))
    + "endbfrange endcmap end"
)
_GLYPHS = (
    "/DescendantFonts [<< /Type /Font /Subtype /CIDFontType2 /BaseFont /Any /DW 500 /FontDescriptor << /Type"
    " /FontDescriptor /FontName /Any /Flags 4 /Ascent 800 /Descent -200 /CapHeight 700 /ItalicAngle 0 /StemV 80"
    " /FontBBox [0 -200 1000 800] >> /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> >>]"
)


def _shown(line: Line) -> str:
    font = 2 if line.bold else 1
    said = f"({_escaped(line.text)})"
    if not all(ord(sign) < 256 for sign in line.text):
        font, said = 3, f"<{line.text.encode('utf-16-be').hex()}>"
    shown = f"BT /F{font} {line.size} Tf {line.x} {792 - line.y} Td {said} Tj ET"
    return f"q {line.drawn} cm {shown} Q" if line.drawn else shown


def _strike_out(box: tuple[float, float, float, float]) -> str:
    x0, y0, x1, y1 = box[0], 792 - box[3], box[2], 792 - box[1]
    quads = f"{x0} {y1} {x1} {y1} {x0} {y0} {x1} {y0}"
    return f"<< /Type /Annot /Subtype /StrikeOut /Rect [{x0} {y0} {x1} {y1}] /QuadPoints [{quads}] >>"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
