"""Make the files of sample/files: a PDF by Chromium, a Word file and a workbook by libraries, a table by hand.

    python scripts/sample_files.py

The results are committed, so that neither the demo nor the tests need Chromium. Everything in them is invented.
"""

from __future__ import annotations

import csv
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "sample" / "files"
CHROMIUM = "/usr/bin/chromium"
_MADE = datetime(2026, 1, 5, 8, tzinfo=UTC).replace(tzinfo=None)

_STYLE = """
body { font: 11pt/1.4 "DejaVu Sans", sans-serif; } h1 { font-size: 22pt; } h2 { font-size: 15pt; margin-top: 18pt; }
table { border-collapse: collapse; width: 100%; }
td, th { border: 0.5pt solid #888; padding: 3pt 6pt; text-align: left; }
h2, tr { break-inside: avoid; } .new { break-before: page; }
"""
_DUES = [
    (low, low + 20, f"{low * 1.45:,.2f}", f"{low * 1.95:,.2f}", f"{low * 0.28:,.2f}") for low in range(20, 400, 20)
]


def _tariff() -> str:
    """Return the tariff as HTML: a table that goes over a page break, and a last page of rules."""
    rows = "".join(
        f"<tr><td>{low} to {high} m</td>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
        for low, high, *cells in _DUES
    )
    return f"""<html lang="en"><head><title>Harbour Tariff 2026</title><style>{_STYLE}</style></head><body>
<h1>Harbour Tariff 2026</h1>
<p>This tariff is in force from 1 January to 31 December 2026 in all ports that plan with Harbourline. Amounts are in
euros and do not include value-added tax.</p>
<h2>1 Who pays</h2>
<p>The agent of a vessel pays all dues. An invoice is due 21 days after the vessel has left; a late payment costs 1.5 %
for each month that has begun.</p>
<h2>2 Berth dues</h2>
<p>Dues are charged for each day that has begun, by the length of the vessel over all.</p>
<table><thead><tr><th>length</th><th>day, weekday</th><th>day, weekend</th><th>hour after the stay</th></tr></thead>
<tbody>{rows}</tbody></table>
<p>Vessels of 400 m and more are agreed with the harbour master.</p>
<h2 class="new">3 Pilotage</h2>
<table><thead><tr><th>draught</th><th>by day</th><th>by night</th></tr></thead><tbody>
<tr><td>up to 6 m</td><td>410.00</td><td>535.00</td></tr><tr><td>up to 9 m</td><td>620.00</td><td>805.00</td></tr>
<tr><td>more than 9 m</td><td>880.00</td><td>1,145.00</td></tr></tbody></table>
<p>A pilot who has boarded in vain is charged with half of the amount.</p>
<h2>4 Waste</h2>
<p>Every call includes 3 cubic metres of waste. Each further cubic metre costs 62.00. Oily water is taken at berth 2
alone, with 48 hours of notice.</p>
<h2>5 Refunds</h2>
<p>A stay that is cancelled 72 hours ahead costs nothing. Later cancellations cost 30 % of one day's dues. Vessels with
shore power connected for the whole stay are refunded 12 % of the berth dues.</p>
</body></html>"""


def write_tariff(path: Path) -> None:
    """Print the tariff as a PDF with a line above and a page number below each page."""
    from playwright.sync_api import sync_playwright

    begin, end = '<div style="font-size: 7pt; padding: 0 16mm; font-family: DejaVu Sans">', "</div>"
    number = 'Page <span class="pageNumber"></span> of <span class="totalPages"></span>'
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.set_content(_tariff())
        page.pdf(
            path=path,
            format="A4",
            margin={"top": "24mm", "bottom": "20mm", "left": "16mm", "right": "16mm"},
            display_header_footer=True,
            header_template=f"{begin}Harbourline &middot; Harbour Tariff 2026{end}",
            footer_template=f"{begin}{number}{end}",
            tagged=False,
        )
        browser.close()


def write_rules(path: Path) -> None:
    """Write the rules for visitors: headings by style, a numbered list, a table with a merged cell."""
    from docx import Document

    document: Any = Document()
    document.core_properties.title = "Visitor Rules"
    document.core_properties.created = document.core_properties.modified = _MADE
    document.add_heading("Visitor Rules", 0)
    document.add_paragraph("These rules hold for everybody who enters the port without an account of Harbourline Desk.")
    document.add_heading("Before you come", 1)
    for text in (
        "Your host announces you in Desk one working day ahead.",
        "You get a code by text message. It opens the gate for 12 hours.",
        "Bring an identity card with a picture; a driving licence is not enough.",
    ):
        document.add_paragraph(text, style="List Number")
    document.add_heading("On the quay", 1)
    document.add_paragraph("Wear a helmet and a vest. Stay behind the yellow line while a crane moves.")
    document.add_heading("What you may bring", 2)
    table: Any = document.add_table(rows=1, cols=3, style="Table Grid")
    for cell, text in zip(table.rows[0].cells, ("thing", "offices", "quay"), strict=True):
        cell.text = text
    for texts in (("camera", "yes", "with a permit"), ("drone", "no", "no"), ("dog on a lead", "yes", "no")):
        for cell, text in zip(table.add_row().cells, texts, strict=True):
            cell.text = text
    last = table.add_row().cells
    last[0].text = "bicycle"
    last[1].merge(last[2]).text = "at the gate's rack"
    document.add_heading("In an emergency", 1)
    document.add_paragraph("Call 5555 from any telephone of the port. The meeting point is the car park of gate 2.")
    document.save(str(path))


def write_hours(path: Path) -> None:
    """Write the hours of the cranes: two sheets and a hidden one, which is not read."""
    from openpyxl import Workbook

    book = Workbook()
    book.properties.created = book.properties.modified = _MADE
    sheet: Any = book.active
    sheet.title = "Hours"
    sheet.append(["crane", "berth", "hours in 2025", "next inspection"])
    for row in (("K1", 4, 3120, "2026-04-14"), ("K2", 4, 2895, "2026-05-05"), ("K3", 5, 3340, "2026-03-24")):
        sheet.append(row)
    faults: Any = book.create_sheet("Faults")
    faults.append(["date", "crane", "what failed", "hours out of service"])
    faults.append(["2025-11-04", "K1", "spreader, twistlock sensor", 9])
    faults.append(["2025-12-19", "K3", "hoist brake, worn lining", 31])
    hidden: Any = book.create_sheet("Prices")
    hidden.append(["crane", "price of a new brake"])
    hidden.append(["K3", 18400])
    hidden.sheet_state = "hidden"
    book.save(path)


def write_rota(path: Path) -> None:
    """Write the rota of the gate."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        rows = csv.writer(stream, lineterminator="\n")
        rows.writerow(["shift", "begins", "ends", "people at gate 1", "people at gate 2"])
        rows.writerows(
            [["early", "05:30", "13:30", 3, 2], ["late", "13:30", "21:30", 3, 2], ["night", "21:30", "05:30", 2, 0]]
        )


def main() -> None:
    """Make all of them."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    write_tariff(FOLDER / "Harbour Tariff 2026.pdf")
    write_rules(FOLDER / "Visitor Rules.docx")
    write_hours(FOLDER / "Crane Hours.xlsx")
    write_rota(FOLDER / "Gate Rota.csv")
    for path in sorted(FOLDER.iterdir()):
        print(f"{path.name}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
