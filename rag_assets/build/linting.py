"""`citelock lint`: what a folder of documentation, or a tenant's published pages, says wrong about itself.

Belongs here: the command, its formats, exit codes. Does not belong here: what is wrong (`steps.contradictions`), the
report of a tenant (`assets.reports`).

It shows pages whoever may read them: it is for who can read the folder, or the home folder, anyway.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

import pyarrow as pa
import typer

from rag_assets.parsing.reader import LimitedReader
from rag_assets.sources.base import SourceError
from rag_assets.sources.registry import open_source
from rag_assets.sources.sites.front_matter import split_front_matter
from rag_assets.state.contradictions import acknowledged_of, read_acknowledged, read_corpus
from rag_assets.state.records import chunk_size
from rag_assets.steps.chunks.document_fields import with_book_places
from rag_assets.steps.chunks.select import join_sources, select_chunks
from rag_assets.steps.contradictions.examination import ExaminedPages, examined
from rag_assets.steps.contradictions.findings import HEADINGS, LintFinding, is_open
from rag_assets.steps.dedup import find_duplicates, fingerprints
from rag_assets.steps.files.records import FileError
from rag_assets.steps.incremental import update_chunks, update_sections
from rag_serving.artifacts.schema import CHUNKS, MACRO_LEDGER, PAGES, SECTIONS
from rag_serving.artifacts.store import Store
from rag_serving.cli.group import FAILED, UsageError
from rag_serving.cli.options import ConfigPath, Tenant, chosen_tenant
from rag_serving.config.loading import Config, load_config, parse_config
from rag_serving.escaping.targets import for_json, for_terminal
from rag_serving.models import open_tokenizer


def command(
    folder: Annotated[
        Path | None, typer.Argument(help="Folder of Markdown, HTML or other pages; without one a tenant's pages.")
    ] = None,
    config: ConfigPath = None,
    tenant: Tenant = None,
    output: Annotated[Literal["text", "json", "sarif"], typer.Option("--format", help="What is printed.")] = "text",
    acknowledged: Annotated[
        Path | None, typer.Option("--acknowledged", metavar="FILE", help="YAML file of what is known and stays.")
    ] = None,
    versions: Annotated[
        bool, typer.Option("--versions", help="Also compare pages of other versions, which may well differ.")
    ] = False,
) -> None:
    """List what pages say wrong about themselves: other values for the same, links that lead nowhere, overdue reviews.

    \b
    citelock lint docs --format sarif > citelock.sarif
    citelock lint --tenant acme --acknowledged known.yaml

    Exit code 1 where something is listed that the file does not acknowledge: `acknowledged: [{id, reason, until}]`.
    An entry holds until its date, or until one of the quoted texts changes.
    """
    known = read_acknowledged(acknowledged)
    today = datetime.now(UTC).date()
    if folder is not None:
        corpus = folder_corpus(folder)
    else:
        settings = load_config(config)
        name = chosen_tenant(settings, tenant)
        corpus = read_corpus(settings, Store(settings.home), name)
        known = known if acknowledged else acknowledged_of(settings, name)
    findings = examined(corpus, today, versions=versions)
    left = [finding for finding in findings if is_open(finding, known, today)]
    if output == "json":
        shown = {"findings": [_payload(one) for one in left], "acknowledged": len(findings) - len(left)}
        typer.echo(for_json(shown))
    elif output == "sarif":
        typer.echo(for_json(sarif(left, folder)))
    else:
        typer.echo(for_terminal("\n".join(_lines(left, len(findings) - len(left), corpus.pages.num_rows))))
    if left:
        raise typer.Exit(FAILED)


def folder_corpus(folder: Path) -> ExaminedPages:
    """Return the pages of a folder as a build reads them; nothing is kept.

    Raises:
        UsageError: it is no folder, or cannot be read.
    """
    if not folder.is_dir():
        raise UsageError(f"{str(folder)!r} is not a folder")
    with TemporaryDirectory(prefix="citelock-lint-") as scratch:
        source = {"kind": "docs_folder", "path": str(folder.resolve()), "tenant": "lint", "readers": "everyone"}
        content = {"home": scratch, "tenants": {"lint": {}}, "sources": {"docs": source}}
        try:
            corpus = source_corpus(parse_config(content, "lint"), "docs", Path(scratch))
        except SourceError as error:
            raise UsageError(str(error)) from None
    files = frozenset(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return replace(corpus, properties=_front_matter(corpus.pages, folder), files=files)


def _front_matter(pages: pa.Table, folder: Path) -> dict[str, dict[str, str]]:
    """Return the words that stand above the text of each page, by name."""
    found = {}
    for page_id, name in zip(pages["page_id"].to_pylist(), pages["source_file"].to_pylist(), strict=True):
        with suppress(OSError, UnicodeDecodeError, FileError):
            front, _ = split_front_matter((folder / name).read_text(encoding="utf-8") if name else "")
            found[page_id] = {key: value for key, value in front.values.items() if isinstance(value, str)}
    return found


def source_corpus(config: Config, key: str, scratch: Path) -> ExaminedPages:
    """Return the pages of a source as a build reads them; nothing is kept."""
    source, ingestion = config.sources[key], config.ingestion
    with LimitedReader(config.documents) as reader:
        pages = open_source(key, source, scratch, reader).sync(PAGES.empty(), {}, _quiet).pages
        empty = SECTIONS.empty(), MACRO_LEDGER.empty()
        sections = update_sections(pages, *empty, ingestion.max_page_bytes, None, reader).sections
    cut = update_chunks(sections, pages, CHUNKS.empty(), open_tokenizer(config.embedding), chunk_size(config, key))
    chunks = join_sources({key: with_book_places(cut.chunks, pages, is_book=False)})
    chosen = select_chunks(chunks, ingestion.drop_labels, ingestion.drop_boilerplate).chunks
    prints, threshold = fingerprints(chosen["text"].to_pylist()), ingestion.dedup_threshold
    duplicates = set(find_duplicates(chosen, prints, threshold)["dropped_id"].to_pylist())
    is_kept = [chunk_id not in duplicates for chunk_id in chosen["chunk_id"].to_pylist()]
    return ExaminedPages(chosen.filter(pa.array(is_kept, pa.bool_())), prints[is_kept], threshold, sections, pages)


def _quiet(_done: int, _total: int, _share: float | None = None) -> None:
    """Say nothing of how far it is."""


def _payload(finding: LintFinding) -> dict[str, Any]:
    quotes = [
        {"title": quote.title, "text": quote.text, "url": quote.url, "file": quote.file} for quote in finding.quotes
    ]
    values = {"id": finding.id, "kind": finding.kind, "space": finding.space, "about": finding.about}
    return {**values, "confidence": round(finding.confidence, 2), "asked": finding.asked, "quotes": quotes}


def _lines(findings: Sequence[LintFinding], acknowledged: int, pages: int) -> list[str]:
    lines = []
    for finding in findings:
        lines.append(f"{finding.id}  {HEADINGS[finding.kind]}: {finding.about}")
        for quote in finding.quotes:
            text = " ".join(quote.text.split())
            lines += [f"  {quote.file or quote.url}  {quote.title}", *([f"    {text}"] if text else [])]
    aside = f", {acknowledged} acknowledged" if acknowledged else ""
    return [*lines, f"{pages} pages read, {len(findings)} to look at{aside}"]


def sarif(findings: Sequence[LintFinding], folder: Path | None) -> Mapping[str, Any]:
    """Return findings as SARIF 2.1.0 (OASIS), which shows them beside the lines of a pull request."""
    rules = [{"id": kind, "shortDescription": {"text": heading}} for kind, heading in HEADINGS.items()]
    results = []
    for finding in findings:
        places = [_place(quote.file, quote.url, quote.text, folder) for quote in finding.quotes]
        said = " — ".join(f"“{' '.join(quote.text.split())}” ({quote.title})" for quote in finding.quotes if quote.text)
        results.append(
            {
                "ruleId": finding.kind,
                "level": "warning",
                "message": {"text": f"{HEADINGS[finding.kind]}: {finding.about}{'. ' if said else ''}{said}"},
                "locations": places[:1],
                "relatedLocations": places[1:],
                "partialFingerprints": {"citelock/v1": finding.id},
            }
        )
    driver = {"name": "citelock lint", "rules": rules}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def _place(file: str | None, url: str, text: str, folder: Path | None) -> dict[str, Any]:
    if file is None or folder is None:
        return {"physicalLocation": {"artifactLocation": {"uri": url}}}
    path = folder / file
    location: dict[str, Any] = {"artifactLocation": {"uri": path.as_posix()}}
    if line := _line_of(path, text):
        location["region"] = {"startLine": line}
    return {"physicalLocation": location}


def _line_of(path: Path, text: str) -> int | None:
    """Return the line of a file that has most of the words of a quote's beginning; None where none has any."""
    wanted = {word.strip("`*_|") for word in text.split()[:12]} - {""}
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    shares = [len(wanted & {word.strip("`*_|") for word in line.split()}) for line in lines]
    return shares.index(max(shares)) + 1 if any(shares) else None
