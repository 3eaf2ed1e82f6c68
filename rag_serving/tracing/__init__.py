"""What a question does, and how long each part takes: timings and flags of its answer, spans of a trace."""

from rag_serving.tracing.stages import Listen, StageTrace, coarse

__all__ = ["Listen", "StageTrace", "coarse"]
