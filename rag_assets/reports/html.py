"""A report as one HTML file that needs nothing else: no network, no other file.

Belongs here: its markup, style and the little script that sorts, filters and shows one pair of several.
Does not belong here: what is told (`report`).

The serving API lets the first style and the last script run, and nothing else (`rag_serving.api.reports`): no attribute
holds either.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rag_assets.reports.report import Case, Cell, Figure, Pair, Plot, Report, Table, text_of
from rag_serving.api.report_style import REPORT_STYLE
from rag_serving.escaping.targets import for_html

_STYLE = (
    REPORT_STYLE
    + """\
h1 { font-size: 1.6rem; margin: 0; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; }
.about, .note, .facts { color: var(--soft); } .about { margin: .3rem 0 1.4rem; } .facts { margin-top: 3rem; }
.figures { display: flex; flex-wrap: wrap; gap: .75rem; }
.figure { background: var(--card); border: 1px solid var(--line); border-radius: 8px;
  padding: .7rem 1rem; min-width: 9rem; flex: 1 1 9rem; max-width: 16rem; }
.figure b { display: block; font-size: 1.45rem; line-height: 1.3; }
.figure span { color: var(--soft); font-size: .85rem; }
.good { color: var(--good); } .bad { color: var(--bad); }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 8px; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { padding: .4rem .7rem; text-align: left; border-bottom: 1px solid var(--line); vertical-align: top; }
tr:last-child td { border-bottom: 0; } th { background: var(--card); position: sticky; top: 0; vertical-align: bottom; }
th, td:first-child { text-wrap: balance; } td:first-child { min-width: 9rem; }
th button { all: unset; cursor: pointer; font-weight: 600; }
th button:focus-visible { outline: 2px solid var(--accent); }
th button::after { content: "\\00a0↕"; color: var(--soft); }
th[aria-sort=ascending] button::after { content: "\\00a0↑"; }
th[aria-sort=descending] button::after { content: "\\00a0↓"; }
td.number, th.number { text-align: right; } td.number { font-variant-numeric: tabular-nums; }
.pick { display: flex; flex-wrap: wrap; gap: .5rem 1.5rem; margin: 0 0 .4rem; }
.pick select { font: inherit; padding: .3rem .5rem; color: inherit; background: var(--back);
  border: 1px solid var(--line); border-radius: 6px; max-width: 100%; }
.pair .scroll { margin-bottom: .8rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 .5rem; }
input { font: inherit; padding: .35rem .6rem; margin-bottom: .6rem; width: min(24rem, 100%); color: inherit;
  background: var(--back); border: 1px solid var(--line); border-radius: 6px; }
img { max-width: 100%; background: #fff; border-radius: 8px; border: 1px solid var(--line); }
@media (prefers-color-scheme: dark) { img { filter: invert(.91) hue-rotate(180deg); border-color: transparent;
  mix-blend-mode: lighten; } }
details { border: 1px solid var(--line); border-radius: 8px; margin-bottom: .5rem; padding: .5rem .9rem; }
summary { cursor: pointer; } summary em { font-style: normal; font-weight: 600; margin-right: .6rem; }
dt { color: var(--soft); margin-top: .7rem; font-size: .85rem; }
.beside { display: grid; grid-auto-flow: column; grid-auto-columns: minmax(0, 1fr); gap: 1.5rem; }
@media (max-width: 700px) { .beside { grid-auto-flow: row; } }
dd { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; }
"""
)

_SCRIPT = """\
for (const button of document.querySelectorAll('th button')) button.onclick = () => {
  const head = button.parentNode, body = head.closest('table').tBodies[0], at = head.cellIndex;
  const down = head.getAttribute('aria-sort') === 'ascending';
  for (const other of head.parentNode.cells) other.removeAttribute('aria-sort');
  head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
  const key = row => row.cells[at].dataset.value ?? row.cells[at].textContent;
  const rows = [...body.rows].sort((a, b) => {
    const x = key(a), y = key(b);
    return (x !== '' && y !== '' && !isNaN(x) && !isNaN(y)) ? x - y : x.localeCompare(y);
  });
  body.append(...(down ? rows.reverse() : rows));
};
for (const input of document.querySelectorAll('input')) input.oninput = () => {
  const wanted = input.value.toLowerCase();
  for (const one of document.querySelectorAll(input.dataset.of))
    one.hidden = !one.textContent.toLowerCase().includes(wanted);
};
const pairs = [...document.querySelectorAll('section.pair')];
const [before, after] = document.querySelectorAll('.pick select');
for (const select of [before, after]) if (select) select.onchange = () => {
  const of = (one, other) => pairs.find(pair => pair.dataset.before === one && pair.dataset.after === other);
  if (!of(before.value, after.value) && of(after.value, before.value))
    [before.value, after.value] = [after.value, before.value];
  const chosen = of(before.value, after.value);
  for (const pair of pairs) pair.hidden = pair !== chosen;
  document.querySelector('.pick + .note').hidden = Boolean(chosen);
};
"""


def html(report: Report) -> str:
    """Return the whole file. Every text is escaped: a page's content cannot become markup here."""
    return "".join(_parts(report))


def _parts(report: Report) -> Iterator[str]:
    yield '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{for_html(report.title)}</title><style>{_STYLE}</style></head><body>"
    yield f'<h1>{for_html(report.title)}</h1><p class="about">{for_html(report.about)}</p>'
    if report.figures:
        yield '<div class="figures">' + "".join(map(_figure, report.figures)) + "</div>"
    yield from map(_plot, report.plots)
    for number, table in enumerate(report.tables):
        yield _table(table, f"t{number}")
    yield from _pairs(report.pairs)
    if report.cases:
        yield f"<h2>{for_html(report.cases_title)}</h2>{_filter('#cases > details', 'Filter the cases')}"
        yield f'<div id="cases">{"".join(map(_case, report.cases))}</div>'
    if report.facts:
        facts = " · ".join(f"{for_html(name)}: {for_html(value)}" for name, value in report.facts.items())
        yield f'<p class="facts">{facts}</p>'
    yield f"<script>{_SCRIPT}</script></body></html>\n"


def _figure(figure: Figure) -> str:
    note = f"<span>{for_html(figure.note)}</span>" if figure.note else ""
    value = f'<b class="{figure.tone}">{for_html(figure.value)}</b>'
    return f'<div class="figure"><span>{for_html(figure.name)}</span>{value}{note}</div>'


def _plot(plot: Plot) -> str:
    return f'<p><img alt="{for_html(plot.title)}" src="data:image/png;base64,{plot.png}"></p>'


def _table(table: Table, name: str, heading: str = "h2") -> str:
    heads = "".join(_head(column, table) for column in table.columns)
    rows = "".join(f"<tr>{''.join(_cell(row.get(c)) for c in table.columns)}</tr>" for row in table.rows)
    note = f'<p class="note">{for_html(table.note)}</p>' if table.note else ""
    return (
        f"<{heading}>{for_html(table.title)}</{heading}>{note}{_filter(f'#{name} tbody tr', 'Filter the rows')}"
        f'<div class="scroll"><table id="{name}"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _pairs(pairs: Sequence[Pair]) -> Iterator[str]:
    """Yield the first pair, and two lists to choose another from."""
    if not pairs:
        return
    names = list(dict.fromkeys(name for pair in pairs for name in (pair.after, pair.before)))
    yield "<h2>Side by side</h2>"
    yield f'<p class="pick">{_choice("before", names, pairs[0].before)}{_choice("after", names, pairs[0].after)}</p>'
    yield '<p class="note" hidden>These are the same, or were not asked the same questions: choose two others.</p>'
    for number, pair in enumerate(pairs):
        hidden = " hidden" if number else ""
        sides = f'data-before="{for_html(pair.before)}" data-after="{for_html(pair.after)}"'
        yield f'<section class="pair" {sides}{hidden}>'
        for place, table in enumerate(pair.tables):
            yield _table(table, f"p{number}t{place}", "h3")
        yield from map(_case, pair.cases)
        yield "</section>"


def _choice(label: str, names: Sequence[str], chosen: str) -> str:
    options = (f"<option{' selected' if name == chosen else ''}>{for_html(name)}</option>" for name in names)
    return f"<label>{label} <select>{''.join(options)}</select></label>"


def _head(column: str, table: Table) -> str:
    """Return a column's head, above its numbers where it has any."""
    kind = ' class="number"' if any(_is_number(row.get(column)) for row in table.rows) else ""
    return f'<th scope="col"{kind}><button>{for_html(column)}</button></th>'


def _is_number(value: Cell) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(value: Cell) -> str:
    if _is_number(value):
        return f'<td class="number" data-value="{value}">{for_html(text_of(value))}</td>'
    return f"<td>{for_html(text_of(value))}</td>"


def _case(case: Case) -> str:
    columns = "".join(map(_parts_of, filter(None, (case.parts, case.before))))
    evidence = _parts_of(case.evidence) if case.evidence else ""
    head = f'<em class="{case.tone}">{for_html(case.status)}</em>{for_html(case.title)}'
    return f'<details class="case"><summary>{head}</summary><div class="beside">{columns}</div>{evidence}</details>'


def _parts_of(parts: Sequence[tuple[str, str]]) -> str:
    return "<dl>" + "".join(f"<dt>{for_html(name)}</dt><dd>{for_html(text)}</dd>" for name, text in parts) + "</dl>"


def _filter(of: str, label: str) -> str:
    return f'<input type="search" placeholder="{label}" aria-label="{label}" data-of="{of}">'
