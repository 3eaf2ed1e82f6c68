"""Rows of tables as JSON has them, and back.

Belongs here: values. Does not belong here: which fields there are (`tables`, the backends), sending them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from citelock_stores.remote.packing import bytes_of, text_of
from citelock_stores.remote.stored import Payload
from rag_serving.artifacts.schema import TableSchema
from rag_serving.indexes.databases import RemoteDataError


def payload_of(row: Payload) -> dict[str, Any]:
    """Return a row as JSON has it; what is null is left out."""
    return {name: _json(value) for name, value in row.items() if value is not None}


def table_of(schema: TableSchema, payloads: Sequence[Payload]) -> pa.Table:
    """Return payloads as a table of these columns; a field that is missing is null.

    Raises:
        RemoteDataError: a value is of another type.
    """
    columns = []
    try:
        for field in schema.columns:
            values = [payload.get(field.name) for payload in payloads]
            if pa.types.is_timestamp(field.type):
                values = [None if value is None else datetime.fromisoformat(value) for value in values]
            elif pa.types.is_binary(field.type):
                values = [None if value is None else bytes_of(value) for value in values]
            columns.append(pa.array(values, field.type))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise RemoteDataError(
            f"a point of {schema.name} is damaged ({error}); run `citelock generations repair`"
        ) from error
    return pa.table(columns, schema=schema.arrow)


def _json(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return text_of(value) if isinstance(value, bytes) else value
