"""A chunk's prefix, which describes its origin, and the texts to embed for each passage.

A prefix is never shown and never quotable. For the lexical index a part of double weight is repeated: BM25 over fields
is BM25 over their weighted term counts (Robertson, Zaragoza and Taylor, "Simple BM25 Extension to Multiple Weighted
Fields", CIKM 2004). The embedding model reads no more than some 250 tokens, and repetition gains nothing: it gets title
and headings once.

Without its head, a table longer than a passage would be found by its first rows alone: only they are below "Three
Months Ended" and "in millions". The passage itself stays verbatim.

Nearly all code is indented. The definitions that enclose a line are those above it with less and less indentation; a
definition of the outermost level also covers the lines after it there.

A model that reads some 250 tokens at once sees a passage of 1,000 only in parts, and the average of parts on different
topics is close to none of them. So each part has a vector of its own, and the nearest one counts. Parts are of about
equal length and begin where a sentence, an item, a row or a line begins: after an edit the later borders mostly stay,
and only the changed windows are embedded.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rag_assets.steps.contexts.prompt import document_type
from rag_serving.artifacts.columns import take_rows
from rag_serving.artifacts.schema import CONTEXTS, GENERATION_CHUNKS
from rag_serving.models.protocols import InputLimit, Tokenizer
from rag_serving.text.structure import columns_of, decode, structure_of

MAX_PREFIX_CHARS = 160
"""A longer path loses its middle: an embedding model reads some 250 tokens, and the text must have them."""


def under_prefixes(prefixes: Sequence[str], texts: Sequence[str]) -> list[str]:
    """Return each text below its prefix, as indexed."""
    return [f"{prefix}\n{text}" if prefix else text for prefix, text in zip(prefixes, texts, strict=True)]


def embedded_texts(chunks: pa.Table) -> list[str]:
    """Return the text to embed for each row of GENERATION_CHUNKS: its prefix above its text."""
    return under_prefixes(chunks["prefix"].to_pylist(), chunks["text"].to_pylist())


def metadata_prefixes(chunks: pa.Table) -> list[str]:
    """Return the embedded prefix of each chunk: chapter, page title and headings, and the head of the table that it
    begins inside. `chunks` needs title, heading_path, chapter and structure."""
    columns = (chunks[name].to_pylist() for name in ("title", "heading_path", "chapter", "structure"))
    prefixes = []
    for title, path, chapter, structure in zip(*columns, strict=True):
        head = table_head(structure)
        # The end of a long one is nearest to the rows.
        head = head if len(head) <= MAX_CHARS else head[-MAX_CHARS:].partition(" ")[2]
        prefixes.append("\n".join(filter(None, (metadata_prefix(title, path or (), chapter), head))))
    return prefixes


def metadata_prefix(title: str, heading_path: Sequence[str], chapter: str | None = None) -> str:
    """Chapter, page title and headings, each once: `Deploy guide › Rolling back`; empty if there are none.

    `chapter`: of a book, such as `Chapter 3: Common Concepts`; its number says nothing.
    """
    names: list[str] = []
    for name in ((chapter or "").partition(": ")[2], title, *heading_path):
        clean = " ".join(name.split())
        if clean and clean not in names:
            names.append(clean)
    while len(names) > 2 and len(" › ".join(names)) > MAX_PREFIX_CHARS:
        del names[1]
    return " › ".join(names)[:MAX_PREFIX_CHARS].strip()


TITLE, HEADINGS, DEFINITIONS = 3, 2, 2
_COLUMNS = ("section_id", "readers", "title", "heading_path", "text", "structure")


def lexical_prefixes(chunks: pa.Table) -> list[str]:
    """Return the lines above the text of each chunk for the lexical index.

    `chunks` needs section_id, readers, title, heading_path, text and structure; the chunks of a section in their order.
    Only earlier chunks with the same readers give a chunk its enclosing lines.
    """
    columns = (chunks[name].to_pylist() for name in _COLUMNS)
    read: defaultdict[tuple[str, str], Enclosing] = defaultdict(Enclosing)
    return [
        lexical_prefix(title, path or (), read[section, readers].definitions(text), table_head(structure))
        for section, readers, title, path, text, structure in zip(*columns, strict=True)
    ]


def lexical_prefix(title: str, heading_path: Sequence[str], definitions: Iterable[str] = (), head: str = "") -> str:
    """Title, headings, definitions and the head of a table, a line each, as often as they count."""
    headings = [heading for heading in heading_path if heading != title]
    lines = [*[title] * TITLE, *headings * HEADINGS, *tuple(definitions) * DEFINITIONS, head]
    return "\n".join(line for line in lines if line.strip())


DEPTH = 3
"""Innermost definitions that are told."""
MAX_LINE_CHARS = 200
_FENCE = re.compile(r"\s*(?:```|~~~)")
_MODIFIERS = (
    r"(?:(?:pub(?:\([^)]*\))?|public|private|protected|internal|static|final|abstract|sealed|export|default|async|unsafe"
    r"|extern|inline|virtual|const|constexpr|override|open|data|partial|declare|template\s*<[^>]*>|@\w+)\s+)*"
)
_KEYWORDS = (
    r"(?:class|struct|enum|union|trait|impl|interface|mod|module|namespace|def|fn|func|fun|function|object|record|type"
    r"|protocol|extension|macro_rules!)"
)
_NO_TYPES = (
    r"(?:if|for|while|switch|return|else|do|catch|case|new|throw|delete|using|typedef|goto|sizeof|await|assert|print"
    r"|not|and|or|in|with|match|let|var|val|use|import|from|elif|yield|raise|except)"
)
# `static Pool *open(int size)`: types, a name, an opened parenthesis, and no end of a statement.
_SIGNATURE = re.compile(rf"\s*(?!{_NO_TYPES}\b)(?:[\w:<>,&*\[\]~@?]+[ \t]+)+[*&]?[\w:~]+\([^;.]*$")
_DEFINITION = re.compile(rf"\s*{_MODIFIERS}{_KEYWORDS}\b.*[\w(){{}}\[\]<>:;,=]\s*$")


class Enclosing:
    """Reads the text of a section part by part, and returns the lines that enclose the next part."""

    def __init__(self) -> None:
        self._open: list[tuple[int, str]] = []  # indentation and line, outermost first

    def definitions(self, text: str) -> tuple[str, ...]:
        """Return the lines of the definitions that enclose the beginning of `text`, outermost first; read it."""
        first = next((line for line in text.split("\n") if line.strip()), "")
        depth = _indentation(first)
        definitions = [line for indentation, line in self._open if indentation < depth or indentation == 0]
        enclosing = () if _FENCE.match(first) else tuple(definitions[: 1 if depth == 0 else None][-DEPTH:])
        for line in text.split("\n"):
            if _FENCE.match(line):
                self._open.clear()
            elif _DEFINITION.match(line) or _SIGNATURE.match(line):
                inner = _indentation(line)
                while self._open and self._open[-1][0] >= inner:
                    self._open.pop()
                self._open.append((inner, line.strip()[:MAX_LINE_CHARS]))
        return enclosing


def _indentation(line: str) -> int:
    expanded = line.expandtabs(4)
    return len(expanded) - len(expanded.lstrip())


MAX_CHARS = 160
"""Of what is embedded above a passage: an embedding model reads some 250 tokens, and the rows must have them."""


def table_head(structure: str) -> str:
    """Return the sentence above a table and the names of its columns, each once, for a passage that begins inside it;
    empty for any other.

    `structure`: as `Structure.encode` wrote it; empty if no ingest has read the passage.
    """
    if not structure:
        return ""
    found = decode(structure)
    if not found.table_header:
        return ""
    names = dict.fromkeys(name for name in columns_of(found.table_header) if name)
    return " ".join(part for part in (found.introduction, ", ".join(names)) if part)


WINDOWS_VERSION = 1
"""Raised when the same passage would be cut elsewhere."""
LONG = 1.5
"""A text has windows when it is longer than this many times what the model reads at once. Passages of the profiles wiki
and docs are not, as long as they are prose: they keep their vectors, and what was learned with them holds."""
MAX_WINDOWS = 16
"""Of more that many, evenly spread and with both ends: as much as the longest block of code that stays whole."""
_LEAST = 0.25  # of what the model reads: so much is the passage's own, however long its prefix


def embedded_windows(chunks: pa.Table, limit: InputLimit | None) -> list[list[str]]:
    """Return the texts that are embedded for each row of GENERATION_CHUNKS, at least one for each.

    `limit`: None if the model reads any passage at once, or does not say.
    """
    texts = embedded_texts(chunks)
    found = [[text] for text in texts]
    # A token has at least one character: most passages need not be counted.
    longest = int(LONG * limit.tokens) if limit else 0
    rows = [row for row, text in enumerate(texts) if len(text) > longest]
    if limit is None or not rows:
        return found
    chosen = take_rows(chunks.select(["prefix", "text", "structure"]), np.array(rows))
    prefixes, passages, structures = (column.to_pylist() for column in chosen.columns)
    above = [len(offsets) for offsets in limit.tokenizer.offsets(prefixes)]
    for place, offsets in enumerate(limit.tokenizer.offsets(passages)):
        size = max(limit.tokens - above[place], int(_LEAST * limit.tokens))
        if above[place] + len(offsets) > longest and len(offsets) > size:
            parts = _parts(passages[place], structures[place], offsets, size)
            found[rows[place]] = under_prefixes([prefixes[place]] * len(parts), parts)
    return found


def _parts(text: str, structure: str | None, offsets: NDArray[np.int32], size: int) -> list[str]:
    """Return a text's windows of at most `size` tokens each; `offsets` [tokens, 2] are those of its tokens."""
    units = (decode(structure) if structure else structure_of(text)).units
    starts = np.unique(np.searchsorted(offsets[:, 0], [unit.start for unit in units]))
    borders = window_borders(len(offsets), size, starts)
    chosen: Sequence[int] = range(len(borders) - 1)
    if len(chosen) > MAX_WINDOWS:
        chosen = np.linspace(0, len(chosen) - 1, MAX_WINDOWS).round().astype(int).tolist()
    return [text[int(offsets[borders[n], 0]) : int(offsets[borders[n + 1] - 1, 1])] for n in chosen]


def window_borders(count: int, size: int, starts: NDArray[np.int64]) -> list[int]:
    """Return the starts of windows over `count` tokens, and the end of the last; none has more than `size` tokens.

    `starts`: ascending, the first tokens of sentences or other units. A border is the start nearest to parts of equal
    length, or in the middle of a unit if no start is within half a window.
    """
    borders = [0]
    while (left := count - borders[-1]) > size:
        begin, parts = borders[-1], -(-left // size)
        aim = begin + -(-left // parts)
        near = starts[(starts > begin + size // 2) & (starts <= begin + size)]
        borders.append(int(near[np.argmin(np.abs(near - aim))]) if len(near) else aim)
    return [*borders, count]


VERSION = 5
"""Raised when the same chunk would get another prefix."""
Template = Literal["metadata", "none"]
CountTokens = Callable[[Sequence[str]], Sequence[int]]
COMPONENTS = ("length_score", "relevance_score", "coherence_score", "specificity_score")
"""Columns of CONTEXTS: the parts of a context's quality."""
NOT_ASKED = "skipped: "
"""How the reason begins for a passage that could not even be asked about."""


@dataclass(frozen=True)
class WrittenContext:
    """A model's context of a passage, and its usage."""

    text: str
    quality: float  # 0 to 1
    issues: tuple[str, ...] = ()
    prompt_version: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0  # of those in: read from the server's prompt cache
    provider: str = ""
    model: str = ""
    made_at: float = 0.0  # seconds since the epoch
    scores: tuple[float, float, float, float] | None = None  # as COMPONENTS names them; None: not kept at the time


def build_contexts(
    chunks: pa.Table,
    template: Template,
    written: Mapping[str, WrittenContext] | None = None,
    failures: Mapping[str, str] | None = None,
    count_tokens: CountTokens | None = None,
) -> pa.Table:
    """Return rows of CONTEXTS, one for each chunk, in the same order. `chunks`: rows of SELECTED_CHUNKS. `template`:
    the line of every chunk, with or without a model's context. `written`: by chunk id a model's context, below the
    template's line. `failures`: by chunk id why a model wrote none. `count_tokens`: counts texts as the embedding model
    does; without it token counts are those of the bare texts."""
    ids, titles = chunks["chunk_id"].to_pylist(), chunks["title"].to_pylist()
    prefixes = lexical = [""] * len(ids)
    if template == "metadata":
        prefixes, lexical = metadata_prefixes(chunks), lexical_prefixes(chunks)
    columns: dict[str, list[Any]] = {name: [] for name in CONTEXTS.columns.names}
    for chunk_id, title, *above in zip(ids, titles, prefixes, lexical, strict=True):
        context, failure = (written or {}).get(chunk_id), (failures or {}).get(chunk_id)
        told = context.text if context else ""
        row = _written(context) if context else _unwritten(failure, above[0])
        row["prefix"], row["lexical_prefix"] = ("\n".join(filter(None, (prefix, told))) for prefix in above)
        row |= {"chunk_id": chunk_id, "document_type": document_type(title or "")}
        for name, values in columns.items():
            values.append(row.get(name))
    columns["contextualized"] = under_prefixes(columns["prefix"], chunks["text"].to_pylist())
    columns["token_count"] = _token_counts(chunks["token_count"].to_pylist(), columns["prefix"], count_tokens)
    return pa.table(columns, schema=CONTEXTS.arrow)


def _written(context: WrittenContext) -> dict[str, Any]:
    return {
        "level": "llm",
        "quality": context.quality,
        "issues": list(context.issues),
        "tokens_in": context.tokens_in,
        "tokens_out": context.tokens_out,
        "generation_timestamp": datetime.fromtimestamp(context.made_at, UTC),
        "llm_provider": context.provider,
        "llm_model": context.model,
        **dict(zip(COMPONENTS, context.scores or (), strict=False)),
    }


def _unwritten(failure: str | None, prefix: str) -> dict[str, Any]:
    is_skipped = failure is not None and failure.startswith(NOT_ASKED)
    level = "skipped" if is_skipped else "metadata" if prefix else "none"
    return {"level": level, "issues": [failure] if failure else [], "tokens_in": 0, "tokens_out": 0}


def token_counter(tokenizer: Tokenizer) -> CountTokens:
    """Return a function that counts the tokens of each of many texts."""
    return lambda texts: [len(offsets) for offsets in tokenizer.offsets(texts)]


def _token_counts(bare: Sequence[int | None], prefixes: Sequence[str], count: CountTokens | None) -> list[int | None]:
    """Return the tokens of each prefix and its text, counted apart; a prefix that many chunks have is counted once."""
    different = [*dict.fromkeys(prefix for prefix in prefixes if prefix)]
    tokens = dict(zip(different, count(different) if count else [0] * len(different), strict=True))
    return [own if own is None else own + tokens.get(prefix, 0) for own, prefix in zip(bare, prefixes, strict=True)]


def contextualized(chunks: pa.Table, contexts: pa.Table) -> pa.Table:
    """Return chunks with their prefixes, as rows of GENERATION_CHUNKS: each with one vector that has no name yet, and
    without a shard. `chunks`: rows of SELECTED_CHUNKS; `contexts`: rows of CONTEXTS for the same chunks, in the same
    order."""
    nothing, unnamed = pa.array([""] * len(chunks), pa.string()), pa.array([[""]] * len(chunks), pa.list_(pa.string()))
    whole = (
        chunks.append_column("prefix", contexts["prefix"])
        .append_column("lexical_prefix", contexts["lexical_prefix"])
        .append_column("vector_keys", unnamed)
        .append_column("shard", nothing)
    )
    return whole.select(GENERATION_CHUNKS.columns.names).cast(GENERATION_CHUNKS.arrow)


def with_vector_keys(chunks: pa.Table, keys: Sequence[Sequence[str]]) -> pa.Table:
    """Return rows of GENERATION_CHUNKS that name the vectors of their texts."""
    place = chunks.column_names.index("vector_keys")
    field = chunks.schema.field("vector_keys")
    return chunks.set_column(place, field, pa.array(keys, field.type))
