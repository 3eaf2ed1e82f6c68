"""The cost of a tenant's day, and its most expensive documents."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evals.reports.report import Cell, Table
from rag_serving.artifacts.schema import CONTEXTS
from rag_serving.artifacts.store import Store, StoreError, read_table
from rag_serving.config.loading import Config
from rag_serving.telemetry.recorder import TelemetryError

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from evals.reports.telemetry import Kpis

DEAREST = 20


@dataclass
class Taken:
    """Tokens of models, and what they cost."""

    tokens: int = 0
    cost: float = 0.0

    def add(self, tokens: float, cost: float) -> None:
        self.tokens += int(tokens)
        self.cost += cost


@dataclass(frozen=True)
class BuildCosts:
    """The usage of builds: on one day by part, and of all days by page."""

    parts: Mapping[str, Taken]  # contexts, embedding
    pages: Mapping[str, Taken]  # embedding


def read_build_costs(engine: Engine, tenant: str, day: str) -> BuildCosts:
    """Return the models' usage in a tenant's builds.

    Raises:
        TelemetryError: the database cannot be read.
    """
    from sqlalchemy import func, inspect, select
    from sqlalchemy.exc import SQLAlchemyError

    from rag_serving.telemetry.tables import error_line
    from rag_serving.telemetry.usage import EMBEDDED, USAGE, by_part

    parts: dict[str, Taken] = defaultdict(Taken)
    pages: dict[str, Taken] = defaultdict(Taken)
    try:
        tables = set(inspect(engine).get_table_names())
        with engine.connect() as connection:
            if USAGE.name in tables:
                used = by_part(connection, tenant, day).get("contexts", {})
                parts["contexts"].add(used.get("tokens", 0.0), used.get("cost", 0.0))
            if EMBEDDED.name in tables:
                sums = [func.sum(EMBEDDED.c.tokens), func.sum(EMBEDDED.c.cost)]
                mine = select(EMBEDDED.c.page_id, *sums).where(EMBEDDED.c.tenant == tenant)
                for page, tokens, cost in connection.execute(mine.group_by(EMBEDDED.c.page_id)):
                    pages[page].add(tokens, cost)
                today = select(*sums).where(EMBEDDED.c.tenant == tenant, EMBEDDED.c.day == day)
                tokens, cost = connection.execute(today).one()
                parts["embedding"].add(tokens or 0, cost or 0.0)
    except SQLAlchemyError as error:
        raise TelemetryError(f"the telemetry database cannot be read ({error_line(error)})") from error
    return BuildCosts(parts, pages)


def cost_tables(config: Config, tenant: str, kpis: Kpis, builds: BuildCosts) -> list[Table]:
    """Return the cost of each part of a day, and the dearest documents; no table without tokens."""
    rows = [_row("questions", kpis.questions, Taken(kpis.tokens_in + kpis.tokens_out, kpis.cost))]
    rows += [_row(part, None, taken) for part, taken in sorted(builds.parts.items())]
    rows = [row for row in rows if row["tokens"]]
    documents = [*_dearest(config, tenant, builds.pages)]
    note = "contexts of the newest build, vectors of all builds"
    return [Table.from_rows("What the day cost", rows), Table.from_rows("Dearest documents", documents, note)]


def _row(part: str, count: int | None, taken: Taken) -> dict[str, Cell]:
    each = taken.cost / count if count else None
    return {"for": part, "count": count, "tokens": taken.tokens, "cost": taken.cost, "cost each": each}


def _dearest(config: Config, tenant: str, embedded: Mapping[str, Taken]) -> Iterator[dict[str, Cell]]:
    contexts = _contexts(config, tenant)
    pages = sorted({*contexts, *embedded})
    taken = {page: (contexts.get(page, Taken()), embedded.get(page, Taken())) for page in pages}
    pages.sort(key=lambda page: (-sum(part.cost for part in taken[page]), -sum(part.tokens for part in taken[page])))
    for page in pages[:DEAREST]:
        written, vectors = taken[page]
        tokens = {"context tokens": written.tokens, "embedded tokens": vectors.tokens}
        yield {"document": page, **tokens, "cost": written.cost + vectors.cost}


def _contexts(config: Config, tenant: str) -> dict[str, Taken]:
    """Return a model's usage for the contexts of each page; empty if no build left any."""
    try:
        table = read_table(Store(config.home).candidate(tenant) / "contexts.parquet", CONTEXTS)
    except StoreError:
        return {}
    settings, pages = config.context, dict[str, Taken]()
    prices = {**(settings.fallback.prices if settings.fallback else {}), **settings.prices}
    columns = ["chunk_id", "tokens_in", "tokens_out", "llm_model"]
    for row in table.select(columns).to_pylist():
        if not row["llm_model"]:
            continue
        price, tokens = prices.get(row["llm_model"]), (row["tokens_in"] or 0, row["tokens_out"] or 0)
        page = str(row["chunk_id"]).rsplit(":", 2)[0]
        pages.setdefault(page, Taken()).add(sum(tokens), price.of(*tokens) if price else 0.0)
    return pages
