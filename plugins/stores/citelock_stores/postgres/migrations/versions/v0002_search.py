"""The second schema: hybrid search by the index at any size, seals of catalogs, an erasure of its own."""

from __future__ import annotations

from citelock_stores.postgres.migrations.versions import run_statements, schema_names

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change functions, and tables only if that takes a moment however large they are."""
    from alembic import op

    connection = op.get_bind()
    names = schema_names(connection)
    for part in ("tables", "partitions", "search"):
        run_statements(connection, f"v0002_{part}", names)


def downgrade() -> None:
    """Refuse. Raises NotImplementedError: always; an older program reads and writes this schema, too."""
    raise NotImplementedError("revision 0002 stays: an older program reads and writes it as it is")
