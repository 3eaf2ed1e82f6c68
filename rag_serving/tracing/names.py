"""Names of spans' attributes: OpenTelemetry's conventions, and our own under `citelock.`.

Belongs here: every name, so that a new version of the conventions is taken up in one place. They are of
https://opentelemetry.io/docs/specs/semconv/gen-ai/ (semantic conventions 1.41, status: development). Does not belong
here: opening spans (`spans`).
"""

from __future__ import annotations

from typing import Final

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
MAX_TOKENS: Final = "gen_ai.request.max_tokens"
TEMPERATURE: Final = "gen_ai.request.temperature"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHED_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
DATA_SOURCE: Final = "gen_ai.data_source.id"
DIMENSIONS: Final = "gen_ai.embeddings.dimension.count"

# Text: set only where `tracing.text` allows it.
QUERY_TEXT: Final = "gen_ai.retrieval.query.text"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
OF_TEXT: Final = frozenset({QUERY_TEXT, INPUT_MESSAGES, OUTPUT_MESSAGES})

CHAT, EMBEDDINGS, RETRIEVAL, RERANK = "chat", "embeddings", "retrieval", "rerank"
"""Values of `gen_ai.operation.name`; the conventions have no reranking, whose value is our own."""

METHOD: Final = "http.request.method"
ROUTE: Final = "http.route"
STATUS: Final = "http.response.status_code"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
ERROR_TYPE: Final = "error.type"

TENANT: Final = "citelock.tenant"
GENERATION: Final = "citelock.generation"
PHASE: Final = "citelock.phase"
FLAG: Final = "citelock.flag"
TEXTS: Final = "citelock.texts"  # how many
ASSET: Final = "citelock.asset"
PARTITION: Final = "citelock.partition"
RUN: Final = "dagster.run_id"
UNIT, FIRST, LAST, TOTAL = "citelock.batch.unit", "citelock.batch.first", "citelock.batch.last", "citelock.batch.total"
"""Of a batch of a build: what is counted, the numbers of its first and last one, from 1, and of how many."""
