"""Statements of an attacker who has the application's or the publisher's connection: the database itself refuses."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pyarrow as pa
import pytest
from support.postgres_index import APP, OWNER, WRITER, IndexServer, connected, set_claims, signer_of, tables_of
from support.synthetic import MODEL, WORDS, chunk_row, clustered_vectors

from citelock_stores.postgres.sessions import KEY_PURPOSE, ClaimSigner, SignedClaims
from citelock_stores.publishing.postgres import publish_generation
from rag_assets.publishing.build import build_generation
from rag_serving.access.principals import Principal
from rag_serving.artifacts.schema import GENERATION_CHUNKS
from rag_serving.artifacts.secret import derived_key
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config, parse_config

READERS = ("everyone", "group:staff", "group:staff&group:board", "user:ann|group:board", "nobody")
OPEN_TO: Mapping[str, tuple[Principal, frozenset[str]]] = {
    "anybody": (Principal("acme"), frozenset(READERS[:1])),
    "staff": (Principal("acme", None, frozenset({"staff"})), frozenset(READERS[:2])),
    "ann": (Principal("acme", "ann", frozenset({"staff"})), frozenset({*READERS[:2], READERS[3]})),
    "board": (Principal("acme", None, frozenset({"staff", "board"})), frozenset(READERS[:4])),
    "a name in quotes": (
        Principal("acme", "ann'; DROP TABLE x --", frozenset({'"board"', "a\0b"})),
        frozenset({"everyone"}),
    ),
}
ROWS = 60
SECRET_WORD = "kestrel"


class Built(NamedTuple):
    """Generations on disk: their ids by tenant."""

    home: Path
    generations: dict[str, str]


class Attacked(NamedTuple):
    config: Config
    signer: ClaimSigner
    neighbour: str  # a tenant in the same bucket as a third one
    third: str


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Generations of acme and of two other tenants, whose ids lead to the bucket of acme's."""
    home = tmp_path_factory.mktemp("home")
    signer = ClaimSigner(derived_key(home, KEY_PURPOSE))
    bucket = signer.tenant_id("acme").bytes[-1] % 16
    names = (f"t{number}" for number in range(1000))
    neighbours = [name for name in names if signer.tenant_id(name).bytes[-1] % 16 == bucket][:2]
    config = parse_config({"home": str(home), "tenants": {name: {} for name in ("acme", *neighbours)}})
    generations = {}
    for number, tenant in enumerate(config.tenants):
        vectors = clustered_vectors(ROWS, seed=number)
        with closing(build_generation(Store(home), tenant, table_of(tenant), vectors, config, MODEL)) as generation:
            generations[tenant] = generation.id
    return Built(home, generations)


def table_of(tenant: str) -> pa.Table:
    rows = [
        chunk_row(
            f"{tenant}{row // 4}",
            row % 4,
            f"{WORDS[row % 30]} {SECRET_WORD if row % 5 == 4 else 'plain'} {tenant} {row}",
            readers=READERS[row % 5],
            title=f"Title {READERS[row % 5]} {tenant}",
        )
        for row in range(ROWS)
    ]
    return GENERATION_CHUNKS.table(rows)


@pytest.fixture(scope="module", params=["own partitions", "shared"])
def attacked(request: pytest.FixtureRequest, server: IndexServer, built: Built) -> Attacked:
    """Three tenants: the partitions of each are its own, or all are neighbours in one bucket."""
    chunks = 1 if request.param == "own partitions" else 9999
    home = built.home
    config = server.config(home, tuple(built.generations), partition_chunks=chunks)
    for tenant, generation in built.generations.items():
        publish_generation(Store(home), tenant, generation, config)
    _, neighbour, third = built.generations
    return Attacked(config, signer_of(config), neighbour, third)


def count(connection: Any, table: str, where: str = "true") -> int:
    return int(connection.execute(f"SELECT count(*) FROM citelock.{table} WHERE {where}").fetchone()[0])


def signed(key: bytes, claims: Mapping[str, Any]) -> SignedClaims:
    said = json.dumps(claims)
    return SignedClaims(said, hmac.new(key, said.encode(), hashlib.sha256).hexdigest())


def claims_of(attacked: Attacked, **changes: Any) -> dict[str, Any]:
    whole = {
        "tenant_id": str(attacked.signer.tenant_id("acme")), "sub": "ann", "groups": ["staff", "board"],
        "role": "reader", "exp": time.time() + 60,
    }  # fmt: skip
    return {name: value for name, value in (whole | changes).items() if value is not None}


@pytest.mark.parametrize("who", OPEN_TO)
def test_a_reader_sees_the_rows_of_its_classes_in_every_table(attacked: Attacked, who: str) -> None:
    principal, classes = OPEN_TO[who]
    with connected(attacked.config, APP, attacked.signer.for_reader(principal, 5)) as connection:
        titles = {title for (title,) in connection.execute("SELECT metadata->>'title' FROM citelock.document_chunks")}
        assert titles == {f"Title {readers} acme" for readers in classes}
        for table in ("document_chunks", "sentence_vectors", "chunk_windows", "catalog_blocks", "postings"):
            ids = {row[0] for row in connection.execute(f"SELECT DISTINCT reader_class FROM citelock.{table}")}
            assert ids <= {attacked.signer.class_id("acme", readers) for readers in classes}, table
        assert count(connection, "document_chunks") == ROWS // 5 * len(classes)
        known = {name for (name,) in connection.execute("SELECT class FROM citelock.reader_classes")}
        assert known == classes
        words = {term for (term,) in connection.execute("SELECT term FROM citelock.postings")}
        assert (SECRET_WORD in words) == ("nobody" in classes)
        assert count(connection, "pointers") == 1
        assert count(connection, "generations") == 0


def test_the_manifest_is_for_servers_and_rows_are_not(attacked: Attacked) -> None:
    with connected(attacked.config, APP, attacked.signer.for_role("acme", "server", 5)) as connection:
        assert count(connection, "generations") == 1
        open_tables = {table for table in tables_of(connection) if count(connection, table)}
        assert open_tables == {"generations", "pointers"}


FORGERIES = {
    "missing": lambda _: None,
    "empty": lambda _: SignedClaims("", ""),
    "unsigned": lambda a: SignedClaims(json.dumps(claims_of(a)), ""),
    "another key": lambda a: signed(b"k" * 32, claims_of(a)),
    "an empty key": lambda a: signed(b"", claims_of(a)),
    "plain digest": lambda a: SignedClaims(
        json.dumps(claims_of(a)), hashlib.sha256(json.dumps(claims_of(a)).encode()).hexdigest()
    ),
    "altered after signing": lambda a: SignedClaims(
        signed(a.signer.key, claims_of(a)).claims.replace("staff", "board"),
        signed(a.signer.key, claims_of(a)).signature,
    ),
    "a signature of zeros": lambda a: SignedClaims(json.dumps(claims_of(a)), "0" * 64),
    "expired": lambda a: signed(a.signer.key, claims_of(a, exp=time.time() - 1)),
    "no expiry": lambda a: signed(a.signer.key, claims_of(a, exp=None)),
    "no role": lambda a: signed(a.signer.key, claims_of(a, role=None)),
    "a role that is none": lambda a: signed(a.signer.key, claims_of(a, role="owner")),
    "a publisher's": lambda a: a.signer.for_role("acme", "publisher", 5),
    "no tenant": lambda a: signed(a.signer.key, claims_of(a, tenant_id=None)),
    "a tenant that is none": lambda a: a.signer.for_reader(Principal("nobody at all", "ann"), 5),
    "brackets": lambda _: SignedClaims("[[[[[[", "f" * 64),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_claims_that_are_not_the_installations_show_nothing(attacked: Attacked, forgery: str) -> None:
    with connected(attacked.config, APP, FORGERIES[forgery](attacked)) as connection:
        for table in tables_of(connection):
            assert count(connection, table) == 0, table


def test_no_reader_sees_another_tenants_rows(attacked: Attacked) -> None:
    everything = Principal(attacked.neighbour, "ann", frozenset({"staff", "board"}))
    other = str(attacked.signer.tenant_id(attacked.third))
    with connected(attacked.config, APP, attacked.signer.for_reader(everything, 5)) as connection:
        for table in tables_of(connection):
            assert count(connection, table, f"tenant_id = '{other}'") == 0, table
            assert count(connection, table, f"tenant_id <> '{attacked.signer.tenant_id(attacked.neighbour)}'") == 0
        found = connection.execute(
            "SELECT * FROM citelock.search_chunks_hybrid(%s, %s, %s, 50)", (f"[{','.join('1' * 32)}]", "plain", other)
        ).fetchall()
        assert found == []


REFUSED = {
    "SET ROLE citelock_owner", "SET ROLE citelock_writer", "SET ROLE postgres", "SET SESSION AUTHORIZATION postgres",
    "ALTER TABLE citelock.document_chunks DISABLE ROW LEVEL SECURITY",
    "ALTER TABLE citelock.document_chunks NO FORCE ROW LEVEL SECURITY",
    "SET LOCAL row_security = off; SELECT * FROM citelock.document_chunks",
    "SELECT * FROM citelock.document_chunks_shared_0", "SELECT * FROM citelock.postings_shared_3",
    "SELECT * FROM citelock.claim_keys", "UPDATE citelock.claim_keys SET inner_pad = outer_pad",
    "COPY citelock.claim_keys TO STDOUT", "COPY citelock.document_chunks TO PROGRAM 'cat'",
    "COPY citelock.document_chunks TO '/tmp/x'", "COPY citelock.documents FROM '/etc/passwd'",
    "INSERT INTO citelock.pointers SELECT * FROM citelock.pointers", "DELETE FROM citelock.document_chunks",
    "UPDATE citelock.document_chunks SET content = 'x'", "TRUNCATE citelock.document_chunks",
    "DROP POLICY readers ON citelock.document_chunks", "DROP TABLE citelock.document_chunks",
    "CREATE POLICY mine ON citelock.document_chunks USING (true)",
    "CREATE FUNCTION citelock.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE OR REPLACE FUNCTION citelock.tenant_as(wanted text) RETURNS uuid LANGUAGE sql AS 'SELECT $1::uuid'",
    "ALTER FUNCTION citelock.classes() OWNER TO citelock_app", "ALTER FUNCTION citelock.claims() SECURITY INVOKER",
    "CREATE TABLE citelock.mine (x int)", "GRANT SELECT ON citelock.claim_keys TO citelock_app",
    "ALTER ROLE citelock_app BYPASSRLS", "ALTER ROLE citelock_app SUPERUSER", "CREATE ROLE mine",
    "GRANT citelock_owner TO citelock_app", "SELECT pg_read_file('postgresql.conf')", "SELECT pg_ls_dir('.')",
    "SELECT lo_import('/etc/passwd')", "SELECT citelock.stage('postings', 'x')",
    "SELECT citelock.attach('postings', 'x')",
    "SELECT citelock.drop_partitions('x')", "SELECT citelock.make_ann('postings', 'x', 'vector', 3)",
    "SET session_replication_role = replica", "SELECT * FROM pg_statistic", "SELECT * FROM pg_authid",
    "DO $$ BEGIN EXECUTE 'SET ROLE citelock_owner'; END $$",
    "CREATE RULE mine AS ON SELECT TO citelock.documents DO INSTEAD SELECT 1",
    "CREATE TRIGGER mine BEFORE UPDATE ON citelock.documents EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "ALTER DATABASE postgres SET row_security = off",
}  # fmt: skip


def test_what_would_open_more_is_refused(attacked: Attacked) -> None:
    claims = attacked.signer.for_reader(OPEN_TO["ann"][0], 30)
    with connected(attacked.config, APP) as connection:
        for statement in sorted(REFUSED):
            set_claims(connection, claims)
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)
            connection.rollback()
        assert count(connection, "document_chunks") == 0  # claims end with their transaction


def test_no_function_of_the_callers_sees_a_row_before_the_policies(attacked: Attacked) -> None:
    """A cheap function that reveals its arguments, and names that shadow those of the policies."""
    with connected(attacked.config, APP, attacked.signer.for_reader(OPEN_TO["anybody"][0], 30)) as connection:
        told: list[str] = []
        connection.add_notice_handler(lambda notice: told.append(notice.message_primary))
        connection.execute(
            "CREATE FUNCTION pg_temp.tell(text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS "
            "$$ BEGIN RAISE NOTICE '%', $1; RETURN true; END $$"
        )
        for table, column in (("document_chunks", "content"), ("postings", "term"), ("reader_classes", "class")):
            connection.execute(f"SELECT 1 FROM citelock.{table} WHERE pg_temp.tell({column}) OFFSET 0").fetchall()
        assert told
        assert not any(SECRET_WORD in text or "staff" in text for text in told)
        connection.execute("CREATE FUNCTION pg_temp.claims() RETURNS jsonb LANGUAGE sql AS $$ SELECT '{}'::jsonb $$")
        connection.execute("CREATE TEMPORARY TABLE claim_keys (inner_pad bytea, outer_pad bytea)")
        connection.execute("CREATE TEMPORARY TABLE reader_classes AS SELECT * FROM citelock.reader_classes")
        connection.execute("CREATE FUNCTION pg_temp.sha256(bytea) RETURNS bytea LANGUAGE sql AS $$ SELECT $1 $$")
        connection.execute("SET LOCAL search_path = pg_temp, pg_catalog, citelock")
        assert count(connection, "document_chunks") == ROWS // 5
        with pytest.raises(psycopg.errors.Error):  # an error reveals no hidden row either
            connection.execute("SELECT 1 / (chunk_index - chunk_index) FROM citelock.document_chunks").fetchall()


def test_other_sessions_show_no_claims(attacked: Attacked) -> None:
    """Claims travel beside the statements: who sees the statements of all its sessions finds none."""
    with (
        connected(attacked.config, APP, attacked.signer.for_reader(OPEN_TO["board"][0], 30)) as victim,
        connected(attacked.config, APP) as attacker,
    ):
        count(victim, "document_chunks")
        set_claims(victim, attacked.signer.for_reader(OPEN_TO["board"][0], 30))
        seen = str(attacker.execute("SELECT query FROM pg_stat_activity").fetchall())
        assert "request.jwt.claims" in seen
        assert "tenant_id" not in seen


def test_estimates_and_statistics_know_nothing_of_values(attacked: Attacked) -> None:
    """A plan's estimate for a hidden value is that for one which does not exist, also after ANALYZE."""
    with connected(attacked.config, OWNER) as connection:
        connection.execute("ANALYZE")
        connection.commit()
        kept = connection.execute(
            "SELECT array_agg(tablename || attname) FROM pg_stats WHERE schemaname = 'citelock' "
            "AND tablename NOT IN ('schema_version', 'claim_keys') "
            "AND attname NOT IN ('tenant_id', 'placement', 'generation', 'row')"
        ).fetchone()
        assert kept == (None,)
    with connected(attacked.config, APP, attacked.signer.for_reader(OPEN_TO["anybody"][0], 30)) as connection:

        def estimates(number: int) -> list[str]:
            statement = f"EXPLAIN SELECT * FROM citelock.document_chunks WHERE reader_class = {number}::bigint"
            return re.findall(r"rows=\d+", str(connection.execute(statement).fetchall()))

        assert estimates(attacked.signer.class_id("acme", "nobody")) == estimates(1234567) != []
        seen = connection.execute("SELECT DISTINCT tablename FROM pg_stats WHERE schemaname = 'citelock'").fetchall()
        assert {name for (name,) in seen} <= {"schema_version"}


def test_names_in_the_catalogs_tell_nobody_who_the_tenants_are(attacked: Attacked) -> None:
    with connected(attacked.config, APP) as connection:
        seen = str(
            connection.execute(
                "SELECT relname, pg_get_expr(relpartbound, oid), obj_description(oid) FROM pg_class "
                "WHERE relnamespace = 'citelock'::regnamespace"
            ).fetchall()
        )
        assert not any(tenant in seen for tenant in attacked.config.tenants)
        assert not any(readers in seen for readers in ("staff", "board", "everyone"))


def test_hybrid_search_gives_what_the_caller_may_read(attacked: Attacked) -> None:
    vector = f"[{','.join('1' * 32)}]"
    tenant = attacked.signer.tenant_id("acme")
    search = "SELECT document_name, content, sim, bm25, fused FROM citelock.search_chunks_hybrid(%s, %s, %s, %s)"
    for principal, classes in OPEN_TO.values():
        with connected(attacked.config, APP, attacked.signer.for_reader(principal, 5)) as connection:
            found = connection.execute(search, (vector, SECRET_WORD, tenant, 100)).fetchall()
            assert {row[0] for row in found} <= {f"Title {readers} acme" for readers in classes}
            assert not any(SECRET_WORD in row[1] for row in found)
            plain = connection.execute(search, (vector, "plain", tenant, 100)).fetchall()
            assert plain
            assert all(row[3] > 0 for row in plain if "plain" in row[1])
            assert [row[4] for row in plain] == sorted((row[4] for row in plain), reverse=True)
            assert all(row[4] == pytest.approx(0.6 * row[2] + 0.4 * row[3]) for row in plain)


REFUSALS = (psycopg.errors.InsufficientPrivilege, psycopg.errors.DataError, psycopg.errors.CheckViolation)


class TestPublisher:
    """The publisher's connection, in the name of one tenant."""

    def test_it_sees_its_tenants_rows_alone(self, attacked: Attacked) -> None:
        other = str(attacked.signer.tenant_id(attacked.third))
        with connected(attacked.config, WRITER, attacked.signer.for_role("acme", "publisher", 30)) as connection:
            for table in tables_of(connection):
                assert count(connection, table, f"tenant_id = '{other}'") == 0, table
            assert count(connection, "document_chunks") == ROWS

    def test_without_claims_it_sees_and_writes_nothing(self, attacked: Attacked) -> None:
        own = str(attacked.signer.tenant_id("acme"))
        for claims in (None, attacked.signer.for_reader(OPEN_TO["board"][0], 5), FORGERIES["another key"](attacked)):
            with connected(attacked.config, WRITER, claims) as connection:
                assert sum(count(connection, table) for table in tables_of(connection)) == 0
                connection.execute("DELETE FROM citelock.generations")
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute("INSERT INTO citelock.generation_classes VALUES (%s, 'x', 1, 1)", (own,))

    def test_it_writes_nothing_for_another_tenant(self, attacked: Attacked) -> None:
        other = str(attacked.signer.tenant_id(attacked.third))
        statements = {
            "INSERT INTO citelock.generation_classes VALUES ('OTHER', 'x', 1, 1)",
            "UPDATE citelock.generation_classes SET tenant_id = 'OTHER'",
            "UPDATE citelock.document_chunks SET placement = 'OTHER'",
            "SELECT * FROM citelock.claim_keys", "SELECT * FROM citelock.document_chunks_shared_1",
            "SET ROLE citelock_owner", "SELECT citelock.stage('claim_keys', 'x')", "SET ROLE citelock_app",
            "ALTER TABLE citelock.document_chunks DISABLE ROW LEVEL SECURITY", "TRUNCATE citelock.documents",
            "CREATE FUNCTION citelock.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        }  # fmt: skip
        for statement in sorted(statements):
            claims = attacked.signer.for_role("acme", "publisher", 30)
            with connected(attacked.config, WRITER, claims) as connection, pytest.raises(REFUSALS):
                connection.execute(statement.replace("OTHER", other))
        with connected(attacked.config, WRITER, attacked.signer.for_role("acme", "publisher", 30)) as connection:
            for table in tables_of(connection):
                deleted = connection.execute(f"DELETE FROM citelock.{table} WHERE tenant_id = %s", (other,))
                assert deleted.rowcount == 0

    def test_what_is_published_cannot_be_dropped_and_what_is_staged_not_read(self, attacked: Attacked) -> None:
        with connected(attacked.config, WRITER, attacked.signer.for_role("acme", "publisher", 30)) as connection:
            (current,) = connection.execute("SELECT generation FROM citelock.pointers").fetchone()
            with pytest.raises(psycopg.errors.ObjectInUse):
                connection.execute("SELECT citelock.drop_partitions(%s)", (current,))
            connection.rollback()
            set_claims(connection, attacked.signer.for_role("acme", "publisher", 30))
            with pytest.raises(psycopg.errors.NullValueNotAllowed):
                connection.execute("SELECT citelock.drop_partitions(NULL)")
            connection.rollback()
            set_claims(connection, attacked.signer.for_role("acme", "publisher", 30))
            with pytest.raises(psycopg.errors.ObjectInUse):
                connection.execute("SELECT citelock.erase_partitions()")
            connection.rollback()
            set_claims(connection, attacked.signer.for_role("acme", "publisher", 30))
            (leaf,) = connection.execute("SELECT citelock.stage('postings', 'y')").fetchone()
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"SELECT * FROM citelock.{leaf}")
