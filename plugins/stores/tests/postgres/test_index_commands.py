"""`citelock index claims` and `citelock generations rollback`, as people and other programs use them."""

from __future__ import annotations

import json
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from sqlalchemy import create_engine, text
from support.postgres_index import IndexServer
from support.synthetic import MODEL, TENANT, chunk_table, clustered_vectors
from typer.testing import CliRunner

from citelock_stores.publishing.postgres import publish_generation
from rag_assets.publishing.build import build_generation
from rag_serving.artifacts.store import Store
from rag_serving.cli.main import app
from rag_serving.config.loading import Config

CHUNKS = 40
COUNT = "SELECT count(*) FROM citelock.document_chunks JOIN citelock.pointers USING (tenant_id, generation);"
SEARCH = "SELECT document_name FROM citelock.search_chunks_hybrid(NULL, 'crane', citelock.tenant_as('reader'), 5);"


class Installation(NamedTuple):
    config: Config
    path: str
    psql: Path
    generations: tuple[str, str]


@pytest.fixture(scope="module")
def installed(server: IndexServer, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """Two generations, the second one published; half of the chunks are everybody's, half the staff's."""
    home = tmp_path_factory.mktemp("commands")
    config = server.config(home)
    ids = []
    for seed in (1, 0):
        table = chunk_table(CHUNKS, seed=seed, readers=("everyone", "group:staff"))
        with closing(build_generation(Store(home), TENANT, table, clustered_vectors(CHUNKS), config, MODEL)) as built:
            ids.append(built.id)
        publish_generation(Store(home), TENANT, ids[-1], config)
    index = config.index.model_dump(mode="json", include={"kind", "url", "writer_url", "owner_url"})
    facts = {"audit": {"mode": "required"}, "telemetry": {"url": f"sqlite:///{home}/serving.db"}}
    path = home / "app.yaml"
    path.write_text(yaml.safe_dump({"home": str(home), "tenants": {TENANT: {}}, "index": index, **facts}))
    return Installation(config, str(path), server.postgres.binaries / "psql", (ids[0], ids[1]))


def run(installed: Installation, *arguments: str) -> Any:
    return CliRunner().invoke(app, [*arguments, "--config", installed.path])


def in_psql(installed: Installation, *statements: str) -> list[str]:
    """The lines that psql prints of a transaction as the application's user."""
    script = "\n".join(("BEGIN;", *statements, "COMMIT;"))
    command = [str(installed.psql), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", installed.config.index.url or ""]
    done = subprocess.run(command, input=script, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.splitlines()


def test_another_program_reads_what_the_caller_of_its_claims_may_read(installed: Installation) -> None:
    assert in_psql(installed, COUNT) == ["0"]
    for arguments, count in (((), 20), (("--group", "staff"), 40), (("--user", "o'brien\\", "--group", "staff"), 40)):
        claims = run(installed, "index", "claims", *arguments)
        assert claims.exit_code == 0, claims.output
        assert in_psql(installed, claims.stdout, COUNT) == [str(count)]
    assert in_psql(installed, COUNT) == ["0"]  # they ended with their transaction
    assert in_psql(installed, claims.stdout, SEARCH)


def test_claims_hold_for_the_minutes_that_were_asked_for_and_are_logged(installed: Installation) -> None:
    before = time.time()
    signed = json.loads(run(installed, "index", "claims", "--user", "ann", "--minutes", "1", "--json").stdout)
    assert before + 59 < signed["expires_at"] <= time.time() + 60  # never a moment longer than requested
    assert json.loads(signed["claims"])["sub"] == "ann"
    with create_engine(f"sqlite:///{installed.config.home}/serving.db").connect() as connection:
        rows = connection.execute(text("SELECT kind, details FROM audit_rows ORDER BY sequence DESC LIMIT 1")).all()
    ((kind, details),) = rows
    assert (kind, json.loads(details)) == ("index.claims_signed", {"minutes": 1, "groups": []})


@pytest.mark.parametrize(
    "arguments", [("--minutes", "0"), ("--minutes", "61"), ("--user", ""), ("--group", "a\nb"), ("--tenant", "other")]
)
def test_claims_without_an_end_or_of_nobody_are_refused(installed: Installation, arguments: tuple[str, ...]) -> None:
    assert run(installed, "index", "claims", *arguments).exit_code == 2


def test_a_rollback_tells_what_the_database_had_published(installed: Installation) -> None:
    """The folder's pointer is another one, and says nothing of the database."""
    older, newer = installed.generations
    store = Store(installed.config.home)
    store.point_current(TENANT, older)
    done = run(installed, "generations", "rollback", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == {"tenant": TENANT, "previous": newer, "current": older}
    with create_engine(f"sqlite:///{installed.config.home}/serving.db").connect() as connection:
        query = "SELECT details FROM audit_rows WHERE kind = 'generation.rolled_back'"
        assert [json.loads(details) for (details,) in connection.execute(text(query))] == [{"from": newer}]
    again = run(installed, "generations", "rollback", newer)
    assert again.stdout == f"{TENANT}: {newer} is published, was {older}\n"
