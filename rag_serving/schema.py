"""One pyarrow schema with a version per artifact table.

Belongs here: the columns both rooms agree on. The reader owns the format; the writer imports it.
Does not belong here: how tables are stored (`store`) or what rows mean to a question (`records`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import pyarrow as pa

VERSION_KEY = b"citelock.version"
TABLE_KEY = b"citelock.table"

_STRINGS = pa.list_(pa.string())
_PLACES = pa.list_(
    pa.struct(
        [
            ("chunk_id", pa.string()),
            ("space", pa.string()),
            ("title", pa.string()),
            ("heading", pa.string()),  # the heading path in one line
            ("url", pa.string()),  # with #anchor
            ("labels", _STRINGS),
            ("readers", pa.string()),  # who may be told of the place
        ]
    )
)
_LINKS = pa.list_(
    pa.struct([(name, pa.string()) for name in ("text", "kind", "target", "space", "anchor")])  # kind: page, file, …
)
_ANCHORS = pa.list_(pa.struct([("name", pa.string()), ("rule", pa.string())]))
_BLOCKS = pa.list_(pa.struct([("kind", pa.string()), ("start", pa.int32()), ("end", pa.int32())]))


@dataclass(frozen=True)
class TableSchema:
    """The columns of one artifact table and the version of their meaning."""

    name: str
    version: int
    rebuild: str
    columns: pa.Schema

    @property
    def arrow(self) -> pa.Schema:
        """The columns with table name and version in the schema's metadata."""
        return self.columns.with_metadata({TABLE_KEY: self.name.encode(), VERSION_KEY: str(self.version).encode()})

    def empty(self) -> pa.Table:
        """A table of these columns without rows."""
        return self.arrow.empty_table()

    def table(self, rows: list[Mapping[str, object]]) -> pa.Table:
        """Rows as a table of exactly these columns; a missing or extra key is an error that names it."""
        if rows:
            have, want = set(rows[0]), set(self.columns.names)
            if have != want:
                raise ValueError(
                    f"table {self.name!r}: missing columns {sorted(want - have)}, extra columns {sorted(have - want)}"
                )
        return pa.Table.from_pylist(rows, schema=self.arrow)


PAGES = TableSchema(
    "pages",
    2,
    "citelock build",
    pa.schema(
        [
            ("source", pa.string()),
            ("tenant", pa.string()),
            ("page_id", pa.string()),  # unique within the tenant
            ("version", pa.int32()),
            ("space", pa.string()),
            ("title", pa.string()),
            ("url", pa.string()),  # without an anchor
            ("status", pa.string()),  # current | archived
            ("updated_at", pa.timestamp("ms", tz="UTC")),
            ("labels", _STRINGS),
            ("ancestors", _STRINGS),  # page ids, root first
            ("ancestor_titles", _STRINGS),
            ("position", pa.int32()),  # among its parent's children, where someone arranged them; null: by title
            ("readers", pa.string()),  # a reader class, see `access`
            ("body", pa.string()),
            ("body_format", pa.string()),  # storage | markdown | html | text
            ("anchor_flavor", pa.string()),  # cloud | datacenter | markdown | html
            ("content_hash", pa.string()),  # of title, body, format and flavor: what sections depend on
        ]
    ),
)

SECTIONS = TableSchema(
    "sections",
    4,
    "citelock build",
    pa.schema(
        [
            ("section_id", pa.string()),  # {page_id}:{version}:s{order}
            ("page_id", pa.string()),
            ("version", pa.int32()),
            ("order", pa.int32()),
            ("level", pa.int8()),  # 0: text above the first heading
            ("heading", pa.string()),
            ("heading_path", _STRINGS),  # page title first
            ("anchor", pa.string()),
            ("anchor_rule", pa.string()),
            ("text", pa.string()),  # Markdown without the heading line
            ("blocks", _BLOCKS),  # atoms of `text` in order: paragraph, heading, code, table (a row), list (an item)
            ("content_types", _STRINGS),
            ("is_boilerplate", pa.bool_()),
            ("content_hash", pa.string()),  # of the page it was made from, and of what that shows of other pages
            ("also_readers", pa.string()),  # who must be able to read it beside the page; everyone: the page's own text
            ("included_from", pa.string()),  # page id of the text where it is another's
            ("links", _LINKS),  # where the links of the page's own text lead
            ("anchors", _ANCHORS),  # further ones that links reach the page's own text by, beside `anchor`
        ]
    ),
)

GROUP_MEMBERS = TableSchema(
    "group_members",
    1,
    "citelock build",
    pa.schema(
        [
            ("group", pa.string()),
            ("user", pa.string()),  # user name, account id or key: a row for each; null: the group was asked for
        ]
    ),
)

MACRO_LEDGER = TableSchema(
    "macro_ledger",
    1,
    "citelock build",
    pa.schema(
        [
            ("page_id", pa.string()),
            ("version", pa.int32()),
            ("macro", pa.string()),
            ("outcome", pa.string()),  # rendered | resolved | unresolved | navigation | hidden | lost
            ("count", pa.int32()),
            ("content_hash", pa.string()),
        ]
    ),
)

_CHUNK_COLUMNS = [
    ("chunk_id", pa.string()),  # {page_id}:{version}:{chunk_idx}
    ("page_id", pa.string()),
    ("version", pa.int32()),
    ("chunk_idx", pa.int32()),
    ("section_id", pa.string()),
    ("space", pa.string()),
    ("title", pa.string()),
    ("heading_path", _STRINGS),
    ("anchor", pa.string()),
    ("url", pa.string()),  # with #anchor
    ("text", pa.string()),  # citable: section.text[start:end]
    ("start", pa.int32()),
    ("end", pa.int32()),
    ("context_before", pa.string()),  # up to the stride of neighbouring text of the section; never citable
    ("context_after", pa.string()),
    ("token_count", pa.int32()),  # of `text`, by the embedding model's tokenizer
    ("content_type", pa.string()),  # paragraph | table | code | list
    ("labels", _STRINGS),
    ("readers", pa.string()),
    ("is_boilerplate", pa.bool_()),
    ("updated_at", pa.timestamp("ms", tz="UTC")),
    ("text_hash", pa.string()),
    ("parent_id", pa.string()),  # page above the chunk's own in the tree; empty at its top
]

CHUNKS = TableSchema(
    "chunks",
    4,
    "citelock build",
    pa.schema(
        [
            *_CHUNK_COLUMNS,
            ("content_hash", pa.string()),  # of its section
            ("page_readers", pa.string()),  # of the page; `readers` are fewer where the text is another page's too
            ("included_from", pa.string()),  # page id of the text where it is another's
        ]
    ),
)

SELECTED_CHUNKS = TableSchema(
    "selected_chunks",
    2,
    "citelock build",
    pa.schema(
        [
            *_CHUNK_COLUMNS,
            ("source", pa.string()),
            ("places", _PLACES),  # of chunks that were dropped as duplicates of this one
        ]
    ),
)

DEDUP_MAP = TableSchema(
    "dedup_map",
    1,
    "citelock build",
    pa.schema(
        [
            ("dropped_id", pa.string()),
            ("kept_id", pa.string()),
            ("jaccard", pa.float32()),
            ("scope", pa.string()),  # within_page | across_versions | across_spaces
        ]
    ),
)

CONTEXTS = TableSchema(
    "contexts",
    3,
    "citelock build",
    pa.schema(
        [
            ("chunk_id", pa.string()),
            ("prefix", pa.string()),  # prepended to what is embedded; never shown, never quotable
            ("lexical_prefix", pa.string()),  # the same for the lexical index: title, headings, definitions, weighted
            ("contextualized", pa.string()),  # prefix above text: what is embedded
            ("level", pa.string()),  # llm | metadata | none | skipped
            ("quality", pa.float32()),  # of what a model wrote, 0 to 1; null where none did
            ("issues", pa.list_(pa.string())),  # what its quality suffers from, or why no model wrote it
            ("tokens_in", pa.int32()),
            ("tokens_out", pa.int32()),
        ]
    ),
)

GENERATION_CHUNKS = TableSchema(
    "generation_chunks",
    3,
    "citelock build",
    pa.schema(
        [
            *_CHUNK_COLUMNS,
            ("source", pa.string()),
            ("places", _PLACES),  # where the text stands as well: chunks dropped as duplicates of this one
            ("prefix", pa.string()),
            ("lexical_prefix", pa.string()),
            ("vector_key", pa.string()),  # content address of the embedded text
            ("shard", pa.string()),  # name of the dense shard that holds it
        ]
    ),
)

PAGE_READERS = TableSchema(
    "page_readers",
    1,
    "citelock build",
    pa.schema(
        [
            ("page_id", pa.string()),
            ("classes", _STRINGS),  # reader classes of its chunks, dropped ones too
            ("content", pa.string()),  # digest of who may read which of its texts
        ]
    ),
)

TABLES: Mapping[str, TableSchema] = MappingProxyType(
    {
        t.name: t
        for t in (
            PAGES,
            GROUP_MEMBERS,
            SECTIONS,
            MACRO_LEDGER,
            CHUNKS,
            DEDUP_MAP,
            SELECTED_CHUNKS,
            CONTEXTS,
            GENERATION_CHUNKS,
            PAGE_READERS,
        )
    }
)
