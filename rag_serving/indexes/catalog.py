"""The generations a tenant has: listing them, showing one, moving `current` forward and back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rag_serving.artifacts.manifest import Manifest, read_manifest
from rag_serving.artifacts.signed_files import read_signed, read_signed_text
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.config.loading import Config
from rag_serving.indexes.databases import open_database
from rag_serving.indexes.generation import Generation, place_of, read_files

HEADINGS = {
    "quality": "Quality over time",
    "evaluation": "Evaluations of generations",
    "questions": "Questions, day by day",
    "retrieval": "Retrieval phases",
    "contradictions": "Contradictions",
    "dedup": "Near-duplicates",
    "ablation": "Contribution of each stage",
    "ragas": "RAGAS",
    "other": "Other reports",
}
"""The kinds of reports in their order, and what stands above those of a kind."""
FOLDER = "reports"
EVAL_HTML = "eval_report.html"
TELEMETRY, QUALITY, RETRIEVAL, CONTRADICTIONS = "telemetry-", "quality", "retrieval", "contradictions"
_EVALUATION = "evaluation-"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,120}")
_TITLES = {
    QUALITY: ("quality", "Quality over generations"),
    RETRIEVAL: ("retrieval", "Retrieval phases"),
    CONTRADICTIONS: ("contradictions", "Contradictions, dead links, overdue reviews"),
    "dedup": ("dedup", "Near-duplicates"),
    "ablation": ("ablation", "Ablation: contribution of each stage"),
    "ragas": ("ragas", "RAGAS"),
}


@dataclass(frozen=True)
class ReportFile:
    """One report."""

    name: str
    kind: str
    title: str
    created_at: datetime
    bytes: int
    path: Path
    generation: str | None = None

    def payload(self, tenant: str) -> dict[str, Any]:
        """Return the JSON shape of one line of the list."""
        return {
            **{name: getattr(self, name) for name in ("name", "kind", "title", "generation", "bytes")},
            "created_at": self.created_at.isoformat(timespec="seconds"),
            "url": route_of(self.name, tenant),
        }


def list_reports(store: Store, tenant: str) -> list[ReportFile]:
    """Return every report of a tenant: by kind, the newest first."""
    found = list[ReportFile | None]()
    for path in (store.tenant(tenant) / FOLDER).glob("*.html"):
        kind, title = _TITLES.get(path.stem, ("other", path.stem))
        if path.stem.startswith(TELEMETRY):
            kind, title = "questions", f"Questions on {path.stem.removeprefix(TELEMETRY)}"
        found.append(_file(path, path.stem, kind, title))
    for folder in _folders(store.generations(tenant)):
        name, title = evaluation_name(folder.name), f"Evaluation of generation {folder.name}"
        found.append(_file(folder / EVAL_HTML, name, "evaluation", title, folder.name))
    reports, order = [report for report in found if report], list(HEADINGS)
    newest = sorted(reports, key=lambda report: (report.created_at, report.name), reverse=True)
    return sorted(newest, key=lambda report: order.index(report.kind))


def read_report(store: Store, tenant: str, name: str) -> str | None:
    """Return the HTML of a report, None if there is none of this name. The name is looked up among those that are there
    and never becomes part of a path. Raises StoreError: it is not as this installation wrote it."""
    path = next((report.path for report in list_reports(store, tenant) if report.name == name), None)
    return read_signed_text(store, path) if path else None


def route_of(name: str, tenant: str) -> str:
    """Return the route of a report in the serving API."""
    return f"/v1/reports/{quote(name, safe='')}?tenant={quote(tenant, safe='')}"


def evaluation_name(generation: str) -> str:
    """Return the name of the report on a generation's evaluation."""
    return f"{_EVALUATION}{generation}"


def evaluations(store: Store, tenant: str) -> dict[str, dict[str, Any]]:
    """Return the `eval_report.json` of each generation with one; altered ones are left out."""
    evaluated = {}
    for folder in _folders(store.generations(tenant)):
        try:
            evaluated[folder.name] = read_signed(store, folder / EVAL_REPORT)
        except StoreError:
            continue
    return evaluated


def _folders(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*") if path.is_dir() and not path.name.startswith(".")]


def _file(path: Path, name: str, kind: str, title: str, generation: str | None = None) -> ReportFile | None:
    """Return the report at a path; no link, because that might lead out of the folder."""
    if not _NAME.fullmatch(name) or path.is_symlink() or not path.is_file():
        return None
    try:
        facts = path.stat()
        created_at = datetime.fromtimestamp(facts.st_mtime, UTC)
    except (OSError, ValueError, OverflowError):  # deleted meanwhile, or of no year that there is
        return None
    known = kind if kind in HEADINGS else "other"
    return ReportFile(name, known, title, created_at, facts.st_size, path, generation)


EVAL_REPORT = "eval_report.json"  # beside the manifest, which does not cover it: it is written after the commit


@dataclass(frozen=True)
class GenerationInfo:
    """One generation on disk. `problem` is why it cannot be used; then the rest is unknown."""

    id: str
    created_at: datetime | None
    chunks: int
    pages: int
    bytes: int
    published: bool  # now or before: something to roll back to
    current: bool
    problem: str | None = None
    gates: str | None = None  # what the gates of quality said; None: it was not evaluated

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape of one line of the list."""
        return {**vars(self), "created_at": self.created_at.isoformat() if self.created_at else None}


def list_generations(store: Store, tenant: str) -> list[GenerationInfo]:
    """Return every generation of a tenant, newest first; unreadable ones come last, with their problem."""
    folder = store.generations(tenant)
    ids = [path.name for path in folder.iterdir() if not path.name.startswith(".")] if folder.is_dir() else []
    current, published = store.current(tenant), published_ids(store, tenant)
    generations = [_info(store, tenant, generation_id, current, published) for generation_id in ids]
    oldest = datetime.min.replace(tzinfo=UTC)
    return sorted(generations, key=lambda info: (info.created_at or oldest, info.id), reverse=True)


def show_generation(store: Store, tenant: str, generation_id: str | None = None) -> Manifest:
    """Return the manifest of a generation, or of the published one. Raises StoreError: none is there, or readable."""
    return read_manifest(store, tenant, generation_id or current_generation(store, tenant))


def current_generation(store: Store, tenant: str) -> str:
    """Return the published generation's id; a StoreError that says how to get one if there is none."""
    current = store.current(tenant)
    if current is None:
        raise StoreError(f"tenant {tenant!r} has no published generation; run `citelock build`")
    return current


def move_current(store: Store, tenant: str, generation_id: str, config: Config) -> None:
    """Publish a generation that opens; else `current` stays. Raises StoreError: it cannot be opened."""
    files = read_files(store, tenant, generation_id, memory_bytes=0, is_searched=False)
    Generation(files, place_of(store, tenant, config), config.indexing.dense_search).close()
    with store.lock(tenant):
        store.point_current(tenant, generation_id)


def rollback(store: Store, tenant: str, config: Config, generation_id: str | None = None) -> str:
    """Publish a named generation, or the newest published one that is older than the current; returns its id. Raises
    StoreError: there is none to go back to, or it cannot be opened."""
    if config.index.kind != "disk":
        target = open_database(config).roll_back(store, tenant, generation_id)
        if store.generation(tenant, target).is_dir():  # folders follow if there are any
            move_current(store, tenant, target, config)
        return target
    target = generation_id or _previous(list_generations(store, tenant), current_generation(store, tenant), tenant)
    move_current(store, tenant, target, config)
    return target


def published_generation(store: Store, tenant: str, config: Config) -> str | None:
    """Return the generation that answers questions, according to the folder or the database of `index`. Raises
    ConfigError, RemoteError: the database is unavailable."""
    if config.index.kind == "disk":
        return store.current(tenant)
    return open_database(config).published(tenant)


def published_ids(store: Store, tenant: str) -> frozenset[str]:
    """Return ids of the generations that are or were published."""
    current = store.current(tenant)
    return frozenset(published_at(store, tenant)) | ({current} if current else set())


def published_at(store: Store, tenant: str) -> dict[str, str]:
    """Return when each generation was first published; a history that was lost or altered starts again."""
    try:
        return dict(store.publication(tenant).history)
    except StoreError:
        return {}


def kept_at(store: Store, tenant: str) -> dict[str, str]:
    """Return when each generation that was published and is kept was first published."""
    kept = {info.id for info in list_generations(store, tenant) if not info.problem}
    return {one: when for one, when in published_at(store, tenant).items() if one in kept}


def published_before(store: Store, tenant: str, moment: datetime, current: str = "") -> str | None:
    """Return the kept generation that was published last before a moment, if not the current one; None without one."""
    kept = {one: when for one, when in kept_at(store, tenant).items() if one != current}
    then = {one: datetime.fromisoformat(when) for one, when in kept.items()}
    return max((one for one, when in then.items() if when < moment), key=then.__getitem__, default=None)


def _previous(generations: Sequence[GenerationInfo], current: str, tenant: str) -> str:
    """`generations` are newest first; a current one that is not among them counts as the newest."""
    ids = [info.id for info in generations]
    older = generations[ids.index(current) + 1 :] if current in ids else generations
    for info in older:
        if info.published and not info.problem:
            return info.id
    raise StoreError(f"tenant {tenant!r} has no published generation before {current!r}; run `citelock build`")


def _info(
    store: Store, tenant: str, generation_id: str, current: str | None, published: frozenset[str]
) -> GenerationInfo:
    folder = store.generation(tenant, generation_id)
    state: dict[str, Any] = {
        "published": generation_id in published,
        "current": generation_id == current,
        "bytes": sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
        "gates": _gates(store, folder),
    }
    try:
        manifest = read_manifest(store, tenant, generation_id)
    except StoreError as error:
        return GenerationInfo(generation_id, None, 0, 0, problem=str(error), **state)
    return GenerationInfo(generation_id, manifest.created_at, manifest.chunks, manifest.page_count, **state)


def _gates(store: Store, folder: Path) -> str | None:
    """Return an evaluation's verdict, in a few words; nothing if its report was altered."""
    try:
        report = read_signed(store, folder / EVAL_REPORT)
        failed = [gate["gate"] for gate in report["gates"] if not gate["passed"]]
        if override := report["override"]:
            return f"gates overridden: {override}"
        if failed:
            return f"gates failed: {', '.join(failed)}"
        return str(report.get("note") or ("gates passed" if report["gates"] else "evaluated, no gates"))
    except (StoreError, KeyError, TypeError):
        return None
