"""The tables of a generation's keyword index. Words are numbered by their place among all words in code point order;
rows are those of GENERATION_CHUNKS; pages are numbered by their first rows."""

from __future__ import annotations

import pyarrow as pa

from rag_serving.artifacts.schema import table_schema
from rag_serving.text.keyword_words import VERSION

_NUMBER, _NUMBERS = pa.int32(), pa.list_(pa.int32())
_FORMAT = 1
FORMAT = 100 * _FORMAT + VERSION

KEYWORD_WORDS = table_schema(
    "keyword_words",
    FORMAT,
    [
        ("word", pa.string(), "in lower case, without punctuation and accents"),
        ("stem", pa.string(), "its term in the lexical index; empty: a stop word there"),
        ("by_stem", _NUMBER, "numbers of all words in the order of their stems"),
        ("rows", _NUMBERS, "rows that hold it in headings below the title or in the text, ascending"),
    ],
)
KEYWORD_ROWS = table_schema(
    "keyword_rows",
    FORMAT,
    [
        ("page", _NUMBER, "number of its page; ascending"),
        ("length", _NUMBER, "words of headings below the title and of the text"),
        ("terms", _NUMBERS, "words that are the whole title, a whole label or a whole heading of it"),
    ],
)
KEYWORD_PAGES = table_schema(
    "keyword_pages",
    FORMAT,
    [("title", _NUMBERS, "words of the title, in order"), ("labels", _NUMBERS, "words of the labels, each once")],
)
