"""The first schema: tables by tenant and generation, policies bound to signed claims, partitions, hybrid search."""

from __future__ import annotations

from citelock_stores.postgres.migrations.versions import run_statements

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_PARTS = ("claims", "tables", "policies", "partitions", "search")
_OWN_WORDS = {"words": "citelock.words_ops", "match": "OPERATOR(citelock.@@@)"}
_SYSTEM_WORDS = {"words": "pg_catalog.tsvector_ops", "match": "OPERATOR(pg_catalog.@@)"}


def upgrade() -> None:
    """Make schema `citelock`; its owner is the current role."""
    from alembic import op

    connection = op.get_bind()
    extension = connection.exec_driver_sql(
        "SELECT quote_ident(n.nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace "
        "WHERE e.extname = 'vector'"
    ).scalar_one()
    has_words = connection.exec_driver_sql("SELECT to_regoper('citelock.@@@') IS NOT NULL").scalar_one()
    names = {"ext": str(extension), **(_OWN_WORDS if has_words else _SYSTEM_WORDS)}
    for part in _PARTS:
        run_statements(connection, f"v0001_{part}", names)


def downgrade() -> None:
    """Refuse. Raises NotImplementedError: always; the schema is dropped by hand, with everything that is published
    there."""
    raise NotImplementedError("the first revision is undone by `DROP SCHEMA citelock CASCADE`")
