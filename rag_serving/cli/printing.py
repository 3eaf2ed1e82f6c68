"""Answers, results and findings as lines of a terminal, and how far a question is."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote

import typer

from rag_serving.escaping.redaction import redacted
from rag_serving.escaping.targets import for_csv, for_json, for_link, for_log, for_terminal, for_terminal_line
from rag_serving.privacy import complain

if TYPE_CHECKING:
    from rag_serving.receipts.proofs import Proof
    from rag_serving.records.answers import Answer, Citation, SearchResults
    from rag_serving.records.decisions import Clarification, Refusal
    from rag_serving.records.passages import Candidate, Location
    from rag_serving.records.sets import SetResult
    from rag_serving.tracing import Listen

State = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Finding:
    """A check and its result; `mend` is the remedy of a problem."""

    name: str
    state: State
    detail: str
    mend: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "detail", redacted(self.detail))
        object.__setattr__(self, "mend", redacted(self.mend))


def age(seconds: float) -> str:
    """Return a time span in its largest unit: `3 hours`."""
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} seconds"


_PLACES_SHOWN = 3
_CLEAR = "\r\x1b[2K"


@contextmanager
def shown() -> Iterator[Listen | None]:
    """Yield a listener that keeps a line of standard error up to date, and clears it; None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return

    def listen(stage: str, detail: str) -> None:
        line = f"{_CLEAR}citelock: {for_log(stage)}{f', {for_log(detail)}' if detail else ''} ..."
        print(line, end="", file=sys.stderr, flush=True)

    try:
        yield listen
    finally:
        print(_CLEAR, end="", file=sys.stderr, flush=True)


def shaped(answer: Answer, shape: str) -> str:
    if shape == "json":
        return for_json(answer.payload())
    if shape == "csv" and answer.set:
        return set_csv(answer.set)
    if shape == "markdown":
        from rag_serving.answering.markdown import markdown

        tell_flags(answer.flags)
        return markdown(answer)
    return "\n".join(answer_lines(answer))


def set_csv(result: SetResult) -> str:
    """Return all members of a set as CSV (RFC 4180): their page, cells, quote and address."""
    from rag_serving.records.answers import MOST_MEMBERS
    from rag_serving.sets.answer import harmless

    lines, columns = StringIO(), result.columns
    rows = csv.writer(lines)
    rows.writerow(map(for_csv, ["page", *columns, "quote", "url"]))
    for member in (*result.members[:MOST_MEMBERS], *map(harmless, result.members[MOST_MEMBERS:])):
        cells = dict(member.cells)
        shown = [member.title, *(cells.get(name, "") for name in columns), member.quote, member.url]
        rows.writerow(map(for_csv, shown))
    return lines.getvalue().rstrip()


def answer_lines(answer: Answer, explaining: str = "--explain") -> Iterator[str]:
    """Yield an answer with its citations; `explaining` is what shows more of one that is none."""
    if answer.outcome == "closest":
        heading, _, passages = answer.answer.partition("\n\n")
        yield from (bold(heading), "", for_terminal(passages))
    else:
        yield for_terminal(answer.answer)
    if answer.clarification:
        lines = clarification_lines(answer.clarification)
        yield from islice(lines, int(answer.clarification.text == answer.answer), None)
    if answer.refusal:
        yield from refusal_lines(answer.refusal, "" if answer.passages is not None else explaining)
    for citations in citation_groups(answer.citations):
        yield ""
        yield from citation_lines(citations)
    yield from (dim(f"    {note}") for note in answer.notes or ())
    for passage in answer.passages or ():
        yield ""
        scores = scores_line(passage["scores"])
        cited = f", cited as [{passage['index']}]" if passage["index"] else ""
        where = f"passage {passage['passage']}{cited}: {' → '.join(passage['heading_path'])}"
        yield dim(f"{where}: {passage['why']} ({scores})")
    yield from evidence_lines(answer)
    if answer.passages is not None and answer.decision:
        yield dim(f"decided: {answer.decision.action}: {answer.decision.reason}")
    if answer.passages is not None and "confidence" in answer.gates:
        told = "confidence {confidence:.2f} of {min_confidence:.2f}".format_map(answer.gates)
        yield from ("", dim(f"{told}: {scores_line(answer.features)}"), *rejected_lines(answer.rejected))
    if answer.receipt_id:
        commands = "citelock receipt verify ID, citelock feedback ID helpful"
        yield from ("", dim(f"receipt {answer.receipt_id}  ({commands})"))
    tell_flags(answer.flags)


def evidence_lines(answer: Answer) -> Iterator[str]:
    """Yield what matched of the passages of an explained answer."""
    if answer.passages is None or not answer.evidence:
        return
    yield from ("", dim("evidence:"))
    for place, each in enumerate(answer.evidence, start=1):
        where = f"{each.doc_slug} ({each.category})" if each.category else each.doc_slug
        matched = f"matched {', '.join(each.matched_terms)}" if each.matched_terms else "no word matched"
        yield dim(
            f"    passage {place}: {where}, chunk {each.chunk_index}, by {each.source}: {matched}; “{each.snippet}”"
        )


def clarification_lines(clarification: Clarification) -> Iterator[str]:
    """Yield what should be known beside the answer, and below it what can be done next."""
    yield dim(clarification.text)
    for option in clarification.options:
        yield f"    {dim(option.label)}{f'  {link(option.url, option.url)}' if option.url else ''}"


def refusal_lines(refusal: Refusal, explaining: str) -> Iterator[str]:
    """Yield what was looked at, and what shows more; where that is nothing, because it is explained, also the gate
    that decided and the best sentence that was not good enough."""
    if explaining:
        yield dim(f"{refusal.reason} ({explaining} shows more)")
        return
    yield dim(f"gate {refusal.gate}: {refusal.reason}")
    if best := refusal.best:
        yield dim(f"nearest: “{best.sentence}”{f' ({best.reason})' if best.reason else ''}")
        yield dim(f"    {best.title}, {best.url}")


def rejected_lines(rejected: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the next best sentences, with their passages and what speaks for each."""
    if rejected:
        yield dim("not chosen:")
    for candidate in rejected:
        features = scores_line({"score": candidate["score"], **candidate["features"]})
        yield dim(f"    passage {candidate['passage']}: “{candidate['text']}” ({features})")


def citation_groups(citations: Sequence[Citation]) -> Iterator[list[Citation]]:
    """Yield the citations of each passage, in the order of their numbers."""
    by_passage = sorted(citations, key=lambda citation: citation.index)
    for _, of_passage in groupby(by_passage, key=lambda citation: citation.index):
        yield list(of_passage)


def citation_lines(citations: Sequence[Citation]) -> Iterator[str]:
    """Yield a passage with all of its quotes; its link opens at the first of them."""
    from rag_serving.answering.citations import page_read, place_told

    first, where = citations[0], place_told(citations[0])
    yield f"{bold(f'[{first.index}] {first.title}')}  {dim(where)}"
    for citation in citations:
        elsewhere = page_read(citation) if page_read(citation) != page_read(first) else ""
        yield f"    “{for_terminal_line(' '.join(citation.quote.split()))}”{dim(f'  {elsewhere}') if elsewhere else ''}"
    yield f"    {link(first.url, first.fragment_url)}"
    yield from also_at_lines(first.also_at)


def search_lines(results: SearchResults) -> Iterator[str]:
    if not results.results:
        yield "Nothing found."
    yield from (dim(f"    {note}") for note in results.notes or ())
    if results.query:
        yield dim(f"    terms: {', '.join(f'{term} {weight:g}' for term, weight in results.query.terms.items())}")
    for rank, candidate in enumerate(results.results, start=1):
        yield from result_lines(rank, candidate)
        if results.query:
            yield dim(f"    {scores_line(candidate.scores)}")
    shown = {candidate.chunk.chunk_id for candidate in results.results}
    others = [candidate for candidate in results.candidates if candidate.chunk.chunk_id not in shown]
    if others:
        yield from ("", dim("also found:"))
    for candidate in others:
        chunk = candidate.chunk
        why = "boilerplate" if chunk.is_boilerplate else "ranked lower"
        yield dim(f"    {' → '.join(chunk.heading_path)}: {why} ({scores_line(candidate.scores)})")


def scores_line(scores: Mapping[str, float]) -> str:
    return ", ".join(f"{stage} {value:.3f}" for stage, value in scores.items())


def result_lines(rank: int, candidate: Candidate) -> Iterator[str]:
    chunk = candidate.chunk
    text = for_terminal_line(" ".join(chunk.text.split()))
    yield f"{bold(f'{rank}. ' + ' → '.join(chunk.heading_path))}  {dim(f'{chunk.space}, version {chunk.version}')}"
    yield f"    {text if len(text) <= 200 else text[:199] + '…'}"
    yield f"    {link(chunk.url, chunk.url)}"
    yield from also_at_lines(chunk.also_at)


def also_at_lines(places: Sequence[Location]) -> Iterator[str]:
    for place in places[:_PLACES_SHOWN]:
        yield f"    {dim('also at')} {for_terminal_line(place.title)}  {dim(place.space)}  {link(place.url, place.url)}"
    if len(places) > _PLACES_SHOWN:
        yield dim(f"    and {len(places) - _PLACES_SHOWN} more places")


def finding_line(finding: Finding) -> str:
    color = {"ok": typer.colors.GREEN, "warn": typer.colors.YELLOW, "fail": typer.colors.RED}[finding.state]
    mend = f": {finding.mend}" if finding.mend else ""
    detail = for_terminal_line(finding.detail)
    return f"{typer.style(f'{finding.state:<4}', fg=color)}  {finding.name:<14} {detail}{dim(mend)}"


def tell_proof(proof: Proof) -> None:
    if not proof.faults:
        typer.echo(
            f"{proof.receipt_id} holds: its signature, every passage, every quote at its place and every verdict."
        )
    for line in proof.proved:
        typer.echo(for_terminal_line(line))
    for fault in proof.faults:
        complain(str(fault))
    for change in proof.changes:
        typer.echo(for_terminal_line(f"since then: {change}"))


def tell_flags(flags: tuple[str, ...]) -> None:
    """Say in words what was degraded or is doubtful; that passages only come close is said above them."""
    from rag_serving.records.flags import CLOSEST_PASSAGE, flags_told

    for told in flags_told(flag for flag in flags if flag != CLOSEST_PASSAGE):
        complain(told["text"])


def tell(text: str) -> None:
    """Print at once, also into a pipe."""
    typer.echo(text)
    sys.stdout.flush()


def bold(text: str) -> str:
    return typer.style(for_terminal_line(text), bold=True)


def dim(text: str) -> str:
    return typer.style(for_terminal_line(text), dim=True) if text else ""


def link(shown: str, target: str) -> str:
    """Return the address, of a file its path; on a terminal it opens the quoted words (OSC 8)."""
    if shown.startswith("file:///"):
        file, mark, anchor = shown.removeprefix("file://").partition("#")
        shown = f"{unquote(file).removeprefix(f'{Path.cwd()}/')}{mark}{anchor}"
    shown = for_terminal_line(shown)
    return f"\x1b]8;;{for_link(target)}\x1b\\{shown}\x1b]8;;\x1b\\" if sys.stdout.isatty() else shown
