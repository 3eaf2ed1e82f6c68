"""The tables of embedding jobs, in the installation's database; the same in SQLite and in Postgres.

Belongs here: columns. Does not belong here: the queue (`citelock_scale.embedding_jobs`), its metrics (`job_series`).

No text of a page is in them: a job names its texts by content address, and the texts are in the tenant's cache folder.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)

METADATA = MetaData()

STATES = ("waiting", "running", "done", "dead")

JOBS = Table(
    "embedding_jobs",
    METADATA,
    Column("id", String(32), primary_key=True),  # digest of tenant, model and keys: the same batch is the same job
    Column("tenant", Text, nullable=False),
    Column("model", Text, nullable=False),  # the embedder's name
    Column("state", String(8), nullable=False),  # one of STATES
    Column("text_keys", JSON, nullable=False),  # content addresses of its texts
    Column("tokens", Integer, nullable=False),  # about so many
    Column("created_at", Float, nullable=False),  # seconds since 1970, UTC, as all times
    Column("not_before", Float, nullable=False),
    Column("attempts", Integer, nullable=False),  # that failed, or whose worker ended
    Column("fence", BigInteger, nullable=False),  # higher with each claim: a lower one has lost the job
    Column("worker", Text),
    Column("lease_until", Float),
    Column("reason", Text),  # of the last failure
    Column("claimed_at", Float),  # the last time
    Column("finished_at", Float),
    Index("embedding_jobs_due", "state", "tenant", "created_at"),
)

SHARES = Table(
    "embedding_shares",
    METADATA,
    Column("tenant", Text, primary_key=True),  # the empty name: the clock of all
    Column("served", Float, nullable=False),  # virtual time up to which the tenant was served, in tokens
    Column("free_at", Float, nullable=False),  # when its rate limits let it begin another job
)

WORKERS = Table(
    "embedding_workers",
    METADATA,
    Column("name", String(200), primary_key=True),  # host:process:random
    Column("model", Text, nullable=False),
    Column("started_at", Float, nullable=False),
    Column("seen_at", Float, nullable=False),
    Column("note", Text),  # why it does no work, where that is so
)

USAGE = Table(
    "embedding_usage",
    METADATA,
    Column("tenant", Text, primary_key=True),
    Column("page_id", Text, primary_key=True),
    Column("model", Text, primary_key=True),
    Column("day", String(10), primary_key=True),  # as 2026-01-31
    Column("texts", Integer, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("cost", Float, nullable=False),  # by `embedding.prices`
)
