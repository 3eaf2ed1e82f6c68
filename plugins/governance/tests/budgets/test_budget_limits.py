"""What a tenant uses is counted once, over processes and restarts, and ends at its limits."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from support.postgres import Postgres
from support.ticking import Clock
from support.wiki import configuration

from citelock_governance.budgets import CountedBudget, limits_of, span_of
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config, ConfigError, parse_config
from rag_serving.hooks import BudgetError, counted, open_budgets
from rag_serving.models.breaker import Breaker
from rag_serving.telemetry.tables import GuardedDatabase
from rag_serving.telemetry.usage import METADATA, by_part

NOON = 1_770_000_000.0 - 1_770_000_000.0 % 86_400 + 43_200
_NAMES = itertools.count()


def config_of(home: Path, url: str | None = None, **budgets: Any) -> Config:
    return configuration(home, budgets=budgets, telemetry={"url": url})


def opened(config: Config, tenant: str = "acme", clock: Clock | None = None) -> CountedBudget:
    database = GuardedDatabase(
        config.telemetry.url, Store(config.home).serving_db(), METADATA, 3.0, Breaker(1000, 0.01)
    )
    return CountedBudget(config, tenant, database, clock or Clock(NOON))


@pytest.fixture
def tenant() -> str:
    """A tenant of one test alone: Postgres is shared."""
    return f"tenant{next(_NAMES)}"


def test_questions_end_at_the_hard_limit_and_begin_anew_with_the_minute(
    tmp_path: Path, url: str | None, tenant: str
) -> None:
    clock = Clock(NOON + 48.5)
    budget = opened(config_of(tmp_path, url, questions_per_minute=3), tenant, clock)
    for _ in range(3):
        assert budget.take("questions", "questions") == []
    with pytest.raises(BudgetError, match=r"3 questions a minute is spent; it begins anew at 12:01 UTC") as error:
        budget.take("questions", "questions")
    assert error.value.retry_after_s == 12
    assert budget.used() == {"questions": 3.0}
    clock.pass_by(11.5)
    budget.take("questions", "questions")
    budget.close()


def test_a_soft_limit_warns_and_stops_nothing(
    tmp_path: Path, url: str | None, tenant: str, caplog: pytest.LogCaptureFixture
) -> None:
    budget = opened(config_of(tmp_path, url, cost_per_day={"soft": 1.5}), tenant)
    assert budget.take("questions", "questions") == []
    budget.spend("questions", 1_000, 1.0)
    assert budget.check() == []
    budget.spend("contexts", 1_000, 0.5)
    for _ in range(3):
        (reached,) = budget.take("questions", "questions")
        assert reached.line == "1.5 used of a budget that warns from a cost of 1.50 a day"
    assert caplog.text.count("warns from") == 1
    budget.close()


def test_tokens_and_money_of_all_parts_count_and_end_a_day(tmp_path: Path, url: str | None, tenant: str) -> None:
    clock = Clock(NOON)
    config = config_of(tmp_path, url, tokens_per_day=1_000)
    budget = opened(config, tenant, clock)
    budget.spend("questions", 400, 0.004)
    budget.check()
    budget.spend("contexts", 600, 0.006)
    for asked in (budget.check, lambda: budget.take("questions", "questions")):
        with pytest.raises(BudgetError, match=r"1,000 tokens a day is spent; it begins anew at 00:00 UTC"):
            asked()
    clock.pass_by(12 * 3_600)
    budget.check()
    with budget._database._engine.connect() as connection:
        found = by_part(connection, tenant, span_of("tokens", NOON).name)
    assert found == {
        "contexts": {"cost": 0.006, "tokens": 600.0},
        "questions": {"cost": 0.004, "tokens": 400.0},
    }
    budget.close()


def test_what_was_used_outlives_the_process_and_is_one_tenants_alone(
    tmp_path: Path, url: str | None, tenant: str
) -> None:
    config = config_of(tmp_path, url, documents_per_day=2)
    budget = opened(config, tenant)
    for _ in range(2):
        with counted(budget, "documents", "uploads"):
            pass
    budget.close()
    again, other = opened(config, tenant), opened(config, f"{tenant}-other")
    with pytest.raises(BudgetError, match="2 documents a day"), counted(again, "documents", "uploads"):
        raise AssertionError("it is not begun")
    other.take("documents", "uploads")
    for each in (again, other):
        each.close()


def test_what_is_not_done_after_all_is_not_counted(tmp_path: Path, url: str | None, tenant: str) -> None:
    budget = opened(config_of(tmp_path, url, documents_per_day=1), tenant)
    for _ in range(3):
        with pytest.raises(OSError, match="full"), counted(budget, "documents", "uploads"):
            raise OSError("full")
    with counted(budget, "documents", "uploads"):
        pass
    assert budget.used() == {"documents": 1.0}
    budget.close()


def test_of_many_at_once_exactly_the_limit_is_let_through(tmp_path: Path, url: str | None, tenant: str) -> None:
    config = config_of(tmp_path, url, questions_per_minute=25)
    budgets = [opened(config, tenant) for _ in range(2)]  # as two processes have them
    budgets[0].used()  # the table is there
    let, refused = [], []

    def ask(budget: CountedBudget) -> None:
        for _ in range(10):
            try:
                let.append(budget.take("questions", "questions"))
            except BudgetError:
                refused.append(1)

    threads = [threading.Thread(target=ask, args=(budgets[number % 2],)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(let), len(refused)) == (25, 15)
    assert budgets[0].used() == {"questions": 25.0}
    for budget in budgets:
        budget.close()


def test_a_database_that_is_down_stops_no_question_and_what_was_used_is_written_later(
    postgres: Postgres, tmp_path: Path, tenant: str
) -> None:
    config = config_of(tmp_path, postgres.url, questions_per_minute=5, tokens_per_day=10_000)
    budget = opened(config, tenant)
    budget.take("questions", "questions")
    postgres.stop()
    try:
        for _ in range(4):
            budget.take("questions", "questions")
            budget.spend("questions", 100, 0.0)
        with pytest.raises(BudgetError, match="5 questions a minute"):
            budget.take("questions", "questions")  # this process has counted them itself
        assert budget.used() == {}
    finally:
        postgres.start()
    time.sleep(0.02)
    assert budget.used() == {"questions": 5.0, "tokens": 400.0}
    budget.close()


_CHILD = """
import sys
from rag_serving.hooks import open_budgets
from rag_serving.config.loading import parse_config
content = {"home": sys.argv[1], "tenants": {"acme": {}}, "budgets": {"tokens_per_day": 1e9}}
budget = open_budgets(parse_config(content), ["acme"])["acme"]
while True:
    budget.spend("questions", 1, 0.0)
    print("spent", flush=True)
"""


def test_a_killed_process_loses_at_most_what_it_had_not_told(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", _CHILD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout
    for _ in range(20):
        assert child.stdout.readline() == "spent\n"
    os.kill(child.pid, signal.SIGKILL)
    told = 20 + len(child.stdout.read().splitlines())
    child.wait()
    child.stdout.close()
    config = config_of(tmp_path, tokens_per_day=1e9)
    budget = opened(config, clock=Clock(time.time()))
    assert told <= budget.used()["tokens"] <= told + 2
    budget.close()


def test_a_count_takes_milliseconds(tmp_path: Path) -> None:
    budget = opened(config_of(tmp_path, questions_per_minute=10_000, tokens_per_day=1e9))
    budget.take("questions", "questions")
    began = time.perf_counter()
    for _ in range(50):
        budget.take("questions", "questions")
        budget.spend("questions", 10, 0.1)
    assert (time.perf_counter() - began) / 50 < 0.1
    budget.close()


def test_nothing_is_opened_where_nothing_is_limited(tmp_path: Path) -> None:
    assert open_budgets(configuration(tmp_path), ["acme"]) == {}
    assert list(open_budgets(config_of(tmp_path, tokens_per_day={"soft": 5}), ["acme"])) == ["acme"]


def test_a_limit_comes_by_environment_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CITELOCK_BUDGETS__TOKENS_PER_DAY__HARD", "7")
    monkeypatch.setenv("CITELOCK_BUDGETS__COST_PER_DAY", "3")
    limits = limits_of(parse_config({"tenants": {"acme": {}}}).budgets_of("acme"))
    assert (limits["tokens"].hard, limits["cost"].hard) == (7, 3)


def test_a_tenant_may_have_limits_of_its_own() -> None:
    config = parse_config(
        {
            "budgets": {"tokens_per_day": 1_000, "cost_per_day": {"soft": 1, "hard": 2}},
            "tenants": {"acme": {"budgets": {"tokens_per_day": {"soft": 5, "hard": 9}}}, "umbrella": {}},
        }
    )
    limits = {tenant: limits_of(config.budgets_of(tenant)) for tenant in ("acme", "umbrella")}
    assert (limits["acme"]["tokens"].hard, limits["acme"]["cost"].hard) == (9, 2)
    assert limits["umbrella"]["tokens"].hard == 1_000
    with pytest.raises(ConfigError, match="a warning comes before the refusal"):
        parse_config({"budgets": {"tokens_per_day": {"soft": 5, "hard": 4}}})
