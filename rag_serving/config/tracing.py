"""The section `tracing`: where spans of questions and builds are sent, how many, and whether they hold text.

Belongs here: keys, types, defaults. Does not belong here: sending (`rag_serving.tracing.exporting`).
"""

from __future__ import annotations

from pydantic import Field, field_validator

from rag_serving.config.sources import Section


class Tracing(Section):
    """Traces with OpenTelemetry (extra `tracing`). Nothing is sent unless `endpoint` is set."""

    endpoint: str | None = None
    """Address of the collector for OTLP over HTTP, such as `http://collector:4318`; null: nothing is sent. Headers that
    it requires come only from the environment (`OTEL_EXPORTER_OTLP_HEADERS`)."""
    sample_ratio: float = Field(1.0, ge=0, le=1)
    """Share of the traces that start here which are recorded; for other traces the caller decides."""
    text: bool = False
    """Allow questions, prompts and the output of models in spans. Prompts contain the texts of pages."""

    @field_validator("endpoint")
    @classmethod
    def _is_http(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://")):
            raise ValueError("it must begin with http:// or https://")
        return value
