"""What a question asks for, before anything is searched: its terms and their weights.

Belongs here: reading a query. Does not belong here: searching (`retrieve`), who may read what (`access`).
"""

from __future__ import annotations

from collections import Counter

from rag_serving.indexes.terms import analyze
from rag_serving.records import Query


def read_query(text: str) -> Query:
    """What a question in natural language, or bare keywords, asks for."""
    return Query(text, text, {term: float(count) for term, count in Counter(analyze(text)).items()})
