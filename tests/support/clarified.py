"""What an answer's clarification says, as one text."""

from __future__ import annotations

from rag_serving.records.answers import Answer


def clarified(answer: Answer) -> str:
    """Return the text and what each option shows and does; empty where there is none."""
    if answer.clarification is None:
        return ""
    options = [" ".join(filter(None, (each.label, each.url))) for each in answer.clarification.options]
    return " ".join((answer.clarification.text, *options))
