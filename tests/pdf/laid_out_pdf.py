"""Writes PDF files whose pages have words at given places, by the letter of ISO 32000."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Line(NamedTuple):
    """Words at a place: points from the left and from the top."""

    x: float
    y: float
    text: str
    size: float = 10
    bold: bool = False


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
) -> bytes:
    """A PDF of these pages. `turned`: degrees that each page is shown turned by; `outline`: titles and their pages;
    `boxes`: filled on each page."""
    fonts = "/F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> "
    fonts += "/F2 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold >>"
    first = 4 + len(outline)
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
        stream = "".join(f"{x0} {792 - y1} {x1 - x0} {y1 - y0} re f " for x0, y0, x1, y1 in boxes) + " ".join(
            f"BT /F{2 if line.bold else 1} {line.size} Tf {line.x} {792 - line.y} Td ({_escaped(line.text)}) Tj ET"
            for line in lines
        )
        box = f"/MediaBox [0 0 612 792] /Rotate {turned} /Contents {first + 2 * number + 1} 0 R"
        objects += [
            f"<< /Type /Page /Parent 2 0 R {box} /Resources << /Font << {fonts} >> >> >>",
            f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
        ]
    content, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, start=1):
        places.append(len(content))
        content += f"{number} 0 obj\n{body}\nendobj\n".encode("latin-1")
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    trailer = f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(content)}\n%%EOF\n"
    return content + f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{trailer}".encode()


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
