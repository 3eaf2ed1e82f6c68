"""The section `tracing`: where spans of questions and builds are sent, how many, and whether they hold text.

Belongs here: keys, types, defaults. Does not belong here: sending (`rag_serving.tracing.exporting`).
"""

from __future__ import annotations

from pydantic import Field, field_validator

from rag_serving.config.sources import Section


class Tracing(Section):
    """Traces by OpenTelemetry (extra `tracing`). Nothing is sent unless a collector is named."""

    endpoint: str | None = None
    """The collector's address for OTLP over HTTP, such as `http://collector:4318`; null sends nothing. Headers that it
    asks for come by the environment alone (`OTEL_EXPORTER_OTLP_HEADERS`)."""
    sample_ratio: float = Field(1.0, ge=0, le=1)
    """Share of the traces that begin here; of one that begins elsewhere, whoever began it decides."""
    text: bool = False
    """Whether spans may hold questions, prompts and what models wrote. Texts of pages are in prompts."""

    @field_validator("endpoint")
    @classmethod
    def _is_http(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://")):
            raise ValueError("it must begin with http:// or https://")
        return value
