"""What questions, contexts and vectors cost is told to analysts and to Prometheus."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
from fastapi.testclient import TestClient
from sqlalchemy import insert
from support.api_client import QUESTION, client_of
from support.wiki import configuration

from evals.reports.costs import cost_tables, read_build_costs
from evals.reports.telemetry import Day, Kpis, kpis, telemetry_report
from rag_serving.artifacts.schema import CONTEXTS
from rag_serving.artifacts.store import Store, write_table
from rag_serving.config.loading import Config
from rag_serving.hooks import open_budgets
from rag_serving.telemetry.tables import QUESTIONS, create_tables, opened
from rag_serving.telemetry.usage import EMBEDDED, JOBS_METADATA

DAY = datetime.now(UTC).date().isoformat()


def config_of(home: Path) -> Config:
    context = {"provider": "openai", "model": "gpt", "prices": {"gpt": {"input": 1.0, "output": 10.0}}}
    return configuration(home, context=context)


def kpis_of(*costs: float) -> Kpis:
    row = {
        "tokens_in": 900,
        "tokens_out": 100,
        "kind": "ask",
        "flags": [],
        "timings_ms": {},
        "claims": 0,
        "verified": 0,
    }
    rows = [{**dict.fromkeys(column.name for column in QUESTIONS.columns), **row, "cost": cost} for cost in costs]
    feedback = pd.DataFrame({"verdict": pd.Series(dtype=str)})
    for each in rows:
        each["status"], each["origin"] = "not_found", "server"
    return kpis(pd.DataFrame(rows), feedback, pd.DataFrame({"rows": pd.Series(dtype=int)}))


def test_a_day_and_each_document_have_their_cost(tmp_path: Path) -> None:
    config, store = config_of(tmp_path), Store(tmp_path)
    budget = open_budgets(config, ["acme"], always=True)["acme"]
    budget.spend("contexts", 5_000, 0.02)
    budget.close()
    contexts = [
        {
            **dict.fromkeys(CONTEXTS.columns.names),
            "chunk_id": chunk,
            "tokens_in": 1_000,
            "tokens_out": 100,
            "llm_model": model,
        }
        for chunk, model in (("a:1:0", "gpt"), ("a:1:1", "gpt"), ("b:1:0", "gpt"), ("c:1:0", None))
    ]
    write_table(store.candidate("acme") / "contexts.parquet", CONTEXTS.table(contexts), CONTEXTS)
    with opened(None, store.serving_db()) as engine:
        create_tables(JOBS_METADATA, engine)
        with engine.begin() as connection:
            row = {"tenant": "acme", "model": "m", "texts": 1}
            for page, day, cost in (("a", DAY, 0.5), ("a", "2020-01-01", 0.25), ("d", DAY, 0.1)):
                connection.execute(insert(EMBEDDED), {**row, "page_id": page, "day": day, "tokens": 300, "cost": cost})
            connection.execute(
                insert(EMBEDDED), {**row, "tenant": "other", "page_id": "x", "day": DAY, "tokens": 9, "cost": 9}
            )
        builds = read_build_costs(engine, "acme", DAY)
    figures = kpis_of(0.25, 0.75)
    day, documents = cost_tables(config, "acme", figures, builds)
    assert list(day.rows) == [
        {"for": "questions", "count": 2, "tokens": 2_000, "cost": 1.0, "cost each": 0.5},
        {"for": "contexts", "count": None, "tokens": 5_000, "cost": 0.02, "cost each": None},
        {"for": "embedding", "count": None, "tokens": 600, "cost": 0.6, "cost each": None},
    ]
    assert [(row["document"], row["context tokens"], row["embedded tokens"]) for row in documents.rows] == [
        ("a", 2_200, 600), ("d", 0, 300), ("b", 1_100, 0),
    ]  # fmt: skip
    assert [round(float(str(row["cost"])), 6) for row in documents.rows] == [0.754, 0.1, 0.002]
    report = telemetry_report("acme", DAY, Day(figures), [day, documents])
    assert {"What the day cost", "Dearest documents"} <= {table.title for table in report.tables}


def test_where_nothing_cost_anything_there_is_nothing_to_tell(tmp_path: Path) -> None:
    config = configuration(tmp_path)
    with opened(None, Store(tmp_path).serving_db()) as engine:
        builds = read_build_costs(engine, "acme", DAY)
    tables = cost_tables(config, "acme", kpis_of(0.0), builds)
    assert [len(table.rows) for table in tables] == [1, 0]


def sample(client: TestClient, name: str) -> list[str]:
    lines = client.get("/metrics").text.splitlines()
    return [line for line in lines if line.startswith(name)]


def test_prometheus_reads_tokens_cost_and_the_budget(wiki_home: Path) -> None:
    limits = {"questions_per_minute": {"soft": 50, "hard": 100}, "cost_per_day": 5}
    with client_of(wiki_home, budgets=limits) as client:
        if time.time() % 60 > 50:
            time.sleep(60 - time.time() % 60)  # so that the minute of the question is not over when it is looked at
        client.post("/v1/ask", json=QUESTION)
        assert sample(client, "citelock_cost_total") == ['citelock_cost_total{tenant="acme"} 0.0']
        assert 'citelock_tokens_total{direction="in",tenant="acme"} 0.0' in sample(client, "citelock_tokens_total")
        used = sample(client, "citelock_budget_used")
        assert [line.split()[0] for line in used] == [
            'citelock_budget_used{measure="questions",tenant="acme"}',
            'citelock_budget_used{measure="cost",tenant="acme"}',
        ]
        assert float(used[0].split()[1]) >= 1
        assert 'citelock_budget_limit{limit="hard",measure="cost",tenant="acme"} 5.0' in sample(
            client, "citelock_budget"
        )


def test_prometheus_reads_what_builds_of_the_day_used(wiki_home: Path) -> None:
    budget = open_budgets(configuration(wiki_home), ["acme"], always=True)["acme"]
    budget.spend("contexts", 5_000, 0.02)
    budget.close()
    with opened(None, Store(wiki_home).serving_db()) as engine:
        create_tables(JOBS_METADATA, engine)
        row = {"model": "m", "texts": 1, "page_id": "a", "tokens": 300, "cost": 0.5}
        with engine.begin() as connection:
            for tenant, day in (("acme", DAY), ("acme", "2020-01-01"), ("other", DAY)):
                connection.execute(insert(EMBEDDED), {**row, "tenant": tenant, "day": day})
    with client_of(wiki_home) as client:
        assert sample(client, "citelock_build_") == [
            'citelock_build_tokens{part="contexts",tenant="acme"} 5000.0',
            'citelock_build_tokens{part="embedding",tenant="acme"} 300.0',
            'citelock_build_cost{part="contexts",tenant="acme"} 0.02',
            'citelock_build_cost{part="embedding",tenant="acme"} 0.5',
        ]
