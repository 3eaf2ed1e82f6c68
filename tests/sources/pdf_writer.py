"""Writes a PDF with a text layer, by the letter of ISO 32000: one page for each text."""

from __future__ import annotations


def pdf(*texts: str, numbered: str = "") -> bytes:
    """A PDF file whose pages show these texts; an empty text is a page without a text layer. `numbered`: the style that
    its pages are named in, such as r for iv."""
    kids = " ".join(f"{3 + 2 * number} 0 R" for number in range(len(texts)))
    labels = f" /PageLabels << /Nums [0 << /S /{numbered} >>] >>" if numbered else ""
    objects = [f"<< /Type /Catalog /Pages 2 0 R{labels} >>", f"<< /Type /Pages /Kids [{kids}] /Count {len(texts)} >>"]
    for number, text in enumerate(texts):
        font = "<< /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >>"
        stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET" if text else "0 0 100 100 re f"
        page = (
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {4 + 2 * number} 0 R /Resources {font} >>"
        )
        objects += [page, f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream"]
    content, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, start=1):
        places.append(len(content))
        content += f"{number} 0 obj\n{body}\nendobj\n".encode("latin-1")
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    trailer = f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(content)}\n%%EOF\n"
    return content + f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{trailer}".encode()
