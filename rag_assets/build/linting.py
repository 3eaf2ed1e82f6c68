"""`citelock lint`: what a folder of documentation, or a tenant's published pages, says wrong about itself. It shows
pages whoever may read them: it is for who can read the folder, or the home folder, anyway."""

from __future__ import annotations

import logging
import os
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

import pyarrow as pa
import typer

from evals.reports.report import report_url
from evals.reports.telemetry_days import asked_about
from rag_assets.build.command import reporting
from rag_assets.build.folder import cache_of
from rag_assets.making import Making
from rag_assets.making.tables import make_chunks, make_pages, make_sections
from rag_assets.progress import Reporter
from rag_assets.sources import open_source
from rag_assets.sources.base import SourceError
from rag_assets.sources.sites.front_matter import split_front_matter
from rag_assets.state.content_cache import SignatureCache
from rag_assets.state.contradictions import acknowledged_of, findings_of, read_acknowledged, tenant_findings
from rag_assets.state.locks import RUN_WAIT_S, exclusive
from rag_assets.state.records import digest
from rag_assets.steps.chunks.select import join_sources, select_chunks
from rag_assets.steps.contradictions.examination import ExaminedPages
from rag_assets.steps.contradictions.findings import HEADINGS, LintFinding, counted, is_open
from rag_assets.steps.dedup import find_duplicates
from rag_assets.steps.files.records import FileError
from rag_serving.artifacts.store import Store
from rag_serving.cli.group import FAILED, UsageError
from rag_serving.cli.options import ConfigPath, Tenant, chosen_tenant
from rag_serving.config.loading import Config, load_config, parse_config
from rag_serving.escaping.targets import for_json, for_terminal
from rag_serving.indexes.catalog import QUALITY

_KEY = "docs"  # of the source and the tenant
_log = logging.getLogger(__name__)


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

    Exit code 1 if something is listed that the file does not acknowledge: `acknowledged: [{id, reason, until}]`.
    An entry holds until its date, or until one of the quoted texts changes.
    """
    known = read_acknowledged(acknowledged)
    today = datetime.now(UTC).date()
    unanswered = ""
    with reporting(as_json=True, verbose=False) as reporter:
        if folder is not None:
            pages, findings = folder_findings(folder, today, reporter, versions=versions)
        else:
            settings = load_config(config)
            name = chosen_tenant(settings, tenant)
            known = known if acknowledged else acknowledged_of(settings, name)
            reporter.begin(name, "contradictions")
            advance = reporter.track("pages", _log.info)
            _, pages, findings = tenant_findings(
                settings, Store(settings.home), name, today, advance, versions=versions
            )
            findings = counted(findings, asked_about(settings, name, _log.warning))
            unanswered = report_url(settings.serving, name, QUALITY)
    left = [finding for finding in findings if is_open(finding, known, today)]
    if output == "json":
        shown = {"findings": [_payload(one) for one in left], "acknowledged": len(findings) - len(left)}
        typer.echo(for_json(shown))
    elif output == "sarif":
        typer.echo(for_json(sarif(left, folder)))
    else:
        typer.echo(for_terminal("\n".join(_lines(left, len(findings) - len(left), pages))))
        if unanswered:
            typer.echo(f"questions without an answer: {unanswered}")
    if left:
        raise typer.Exit(FAILED)


def folder_findings(
    folder: Path, today: date, reporter: Reporter, *, versions: bool = False
) -> tuple[int, list[LintFinding]]:
    """Return how many pages a folder has and what is wrong in them; what did not change is kept in the user's cache.
    Raises UsageError: it is no folder, or cannot be read."""
    if not folder.is_dir():
        raise UsageError(f"{str(folder)!r} is not a folder")
    folder = folder.resolve()
    with _home(folder) as home:
        config, store = _config(folder, home), Store(home)
        try:
            source = open_source(_KEY, config.sources[_KEY], store.source(_KEY))
            key = digest(version("citelock"), source.fingerprint(), sorted(_files(folder)))
            read = partial(folder_corpus, folder, home, reporter)
            advance = reporter.track("pages", _log.info)
            return findings_of(store, store.cache(_KEY), key, read, today, advance, versions=versions)
        except SourceError as error:
            raise UsageError(str(error)) from None


def folder_corpus(folder: Path, home: Path, reporter: Reporter) -> ExaminedPages:
    """Return the pages of a folder as a build reads them, of which a home keeps the tables."""
    corpus = source_corpus(_config(folder, home), _KEY, reporter)
    found = {}
    columns = (corpus.pages[name].to_pylist() for name in ("page_id", "source_file"))
    for page_id, name in zip(*columns, strict=True):
        with suppress(OSError, UnicodeDecodeError, FileError):
            front, _ = split_front_matter((folder / name).read_text(encoding="utf-8") if name else "")
            found[page_id] = [(key, value) for key, value in front.values.items() if isinstance(value, str)]
    return replace(corpus, properties=found, files=_files(folder))


def _config(folder: Path, home: Path) -> Config:
    source = {"kind": "docs_folder", "path": str(folder), "tenant": _KEY, "readers": "everyone", "max_deleted_share": 1}
    return parse_config({"home": str(home), "tenants": {_KEY: {}}, "sources": {_KEY: source}}, "lint")


def _files(folder: Path) -> frozenset[str]:
    below = ((Path(top).relative_to(folder).as_posix(), names) for top, _, names in os.walk(folder))
    return frozenset(posixpath.normpath(f"{top}/{name}") for top, names in below for name in names)


@contextmanager
def _home(folder: Path) -> Iterator[Path]:
    """Yield the folder for the tables: in the user's cache, or a temporary one if that is not writable."""
    home = cache_of(folder, "lint")
    try:
        home.mkdir(parents=True, exist_ok=True)
        kept = nullcontext(str(home)) if os.access(home, os.W_OK) else TemporaryDirectory(prefix="citelock-lint-")
    except OSError:
        kept = TemporaryDirectory(prefix="citelock-lint-")
    with kept as path, exclusive(Path(path), RUN_WAIT_S):
        yield Path(path)


def source_corpus(config: Config, key: str, reporter: Reporter) -> ExaminedPages:
    """Return the pages of a source as a build reads them, of which the home keeps the tables."""
    store, ingestion = Store(config.home), config.ingestion
    making = Making(key, config, store, reporter, _log)
    pages, sections = make_pages(making)[0].pages, make_sections(making)[0].sections
    chunks = join_sources({key: make_chunks(making)[0]})
    reporter.begin(key, "contradictions")
    chosen = select_chunks(chunks, ingestion.drop_labels, ingestion.drop_boilerplate).chunks
    signatures = SignatureCache(store.cache(config.sources[key].tenant))
    prints, _ = signatures.fingerprints(chosen["text"].to_pylist(), chosen["text_hash"].to_pylist())
    threshold = ingestion.dedup_threshold
    duplicates = set(find_duplicates(chosen, prints, threshold)["dropped_id"].to_pylist())
    is_kept = [chunk_id not in duplicates for chunk_id in chosen["chunk_id"].to_pylist()]
    return ExaminedPages(chosen.filter(pa.array(is_kept, pa.bool_())), prints[is_kept], threshold, sections, pages)


def _payload(finding: LintFinding) -> dict[str, Any]:
    quotes = [
        {"title": quote.title, "text": quote.text, "url": quote.url, "file": quote.file} for quote in finding.quotes
    ]
    values = {"id": finding.id, "kind": finding.kind, "space": finding.space, "about": finding.about}
    return {**values, "confidence": round(finding.confidence, 2), "asked": finding.asked, "quotes": quotes}


def _lines(findings: Sequence[LintFinding], acknowledged: int, pages: int) -> list[str]:
    lines = []
    for finding in findings:
        asked = f" (asked {finding.asked} times)" if finding.asked else ""
        lines.append(f"{finding.id}  {HEADINGS[finding.kind]}: {finding.about}{asked}")
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
    """Return the line of a file that has most of the words of a quote's beginning; None if none has any."""
    wanted = {word.strip("`*_|") for word in text.split()[:12]} - {""}
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    shares = [len(wanted & {word.strip("`*_|") for word in line.split()}) for line in lines]
    return shares.index(max(shares)) + 1 if any(shares) else None
