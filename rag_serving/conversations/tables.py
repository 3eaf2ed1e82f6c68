"""The tables of stored sessions, the same in SQLite and in Postgres.

Belongs here: columns. Does not belong here: who may see a row, what is encrypted (`store`).
"""

from __future__ import annotations

from sqlalchemy import JSON, Boolean, Column, Float, Integer, MetaData, String, Table, Text

METADATA = MetaData()

SESSIONS = Table(
    "sessions",
    METADATA,
    Column("id", String(36), primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("user_id", String(32), nullable=False, index=True),  # keyed digest
    Column("created_at", String(32), nullable=False),  # ISO 8601, UTC
    Column("last_active", String(32), nullable=False, index=True),
)

QUERIES = Table(
    "queries",
    METADATA,
    Column("id", String(36), primary_key=True),
    Column("session_id", String(36), nullable=False, index=True),
    Column("query_text", Text, nullable=False),  # encrypted, unless `telemetry.store_questions` is set
    Column("is_sealed", Boolean, nullable=False),  # whether the texts of this row and of its response are encrypted
    Column("mode", String(20), nullable=False),  # corpus, book-wide, selected_text
    Column("context_text", Text),  # the selected text, encrypted as the question is
    Column("filters", JSON(none_as_null=True)),
    Column("timestamp", String(32), nullable=False),
)

RESPONSES = Table(
    "responses",
    METADATA,
    Column("id", String(36), primary_key=True),
    Column("query_id", String(36), nullable=False, index=True),
    Column("answer_text", Text, nullable=False),
    Column("sources", JSON, nullable=False),  # [{index, chunk_id, page_id}] of its citations
    Column("status", String(24), nullable=False),
    Column("has_options", Boolean, nullable=False),
    Column("confidence", Float),
    Column("refused", Boolean, nullable=False),
    Column("receipt_id", String(64)),
    Column("latency_ms", Integer, nullable=False),
    Column("timestamp", String(32), nullable=False),
)
