-- What is published. Every row has its tenant, its generation and its reader class. {ext}: the schema of pgvector.

-- The generation that a tenant's questions are answered from.
CREATE TABLE citelock.pointers (
  tenant_id uuid PRIMARY KEY,
  generation text NOT NULL,
  placement uuid NOT NULL, -- the tenant's own partitions, or the bucket that it shares
  dimension integer NOT NULL,
  ann text NOT NULL CHECK (ann IN ('none', 'vector', 'halfvec')), -- what its HNSW index is made of
  weights float8[] NOT NULL, -- of search_chunks_hybrid: similarity, text
  moved_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE citelock.generations (
  tenant_id uuid NOT NULL,
  generation text NOT NULL,
  placement uuid NOT NULL,
  dimension integer NOT NULL,
  ann text NOT NULL,
  chunks bigint NOT NULL,
  counts jsonb NOT NULL, -- rows by table, for the doctor
  manifest bytea NOT NULL,
  newest jsonb NOT NULL, -- {source: time of its newest page}
  created_at timestamptz NOT NULL,
  published_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  left_at timestamptz, -- when the pointer left it; NULL: it is current
  PRIMARY KEY (tenant_id, generation)
);

CREATE TABLE citelock.generation_classes (
  tenant_id uuid NOT NULL,
  generation text NOT NULL,
  reader_class bigint NOT NULL,
  chunks bigint NOT NULL,
  PRIMARY KEY (tenant_id, generation, reader_class)
);

-- Pages, once for each reader class of their chunks: that others may see more of one is told to nobody.
CREATE TABLE citelock.documents (
  tenant_id uuid NOT NULL,
  generation text NOT NULL,
  document_id uuid NOT NULL,
  page_id text NOT NULL,
  name text NOT NULL,
  source text,
  kind text,
  space text,
  url text,
  version integer,
  updated_at timestamptz,
  reader_class bigint NOT NULL,
  PRIMARY KEY (tenant_id, generation, document_id, reader_class)
);

CREATE TABLE citelock.document_chunks (
  id uuid NOT NULL,
  tenant_id uuid NOT NULL,
  placement uuid NOT NULL,
  generation text NOT NULL,
  "row" integer NOT NULL,
  reader_class bigint NOT NULL,
  document_id uuid NOT NULL,
  chunk_index integer NOT NULL,
  chunk_id text NOT NULL,
  content text NOT NULL,
  context_before text,
  context_after text,
  structure text,
  exact bytea, -- the four texts as JSON, where one of them holds what a text cannot
  embedding {ext}.vector, -- NULL: one for each window, in chunk_windows
  metadata jsonb NOT NULL DEFAULT '{}',
  page integer,
  content_sha256 text,
  token_count integer,
  heading text,
  section_path text,
  lang text,
  tsv tsvector GENERATED ALWAYS AS (
    to_tsvector(citelock.text_config(lang), left(coalesce(section_path, '') || E'\n' || content, 200000))
  ) STORED,
  version integer,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz,
  PRIMARY KEY (placement, generation, "row")
) PARTITION BY LIST (placement);
-- In the row itself where it fits: an exact search reads every one.
ALTER TABLE citelock.document_chunks ALTER COLUMN embedding SET STORAGE MAIN;
CREATE INDEX ON citelock.document_chunks (tenant_id, document_id, chunk_index);
CREATE INDEX ON citelock.document_chunks (tenant_id, generation, reader_class);
CREATE INDEX ON citelock.document_chunks USING gin (tsv {words});

CREATE TABLE citelock.chunk_windows (
  tenant_id uuid NOT NULL,
  placement uuid NOT NULL,
  generation text NOT NULL,
  "row" integer NOT NULL,
  "window" integer NOT NULL,
  reader_class bigint NOT NULL,
  embedding {ext}.vector NOT NULL,
  PRIMARY KEY (placement, generation, "row", "window")
) PARTITION BY LIST (placement);
ALTER TABLE citelock.chunk_windows ALTER COLUMN embedding SET STORAGE MAIN;

CREATE TABLE citelock.sentence_vectors (
  tenant_id uuid NOT NULL,
  placement uuid NOT NULL,
  generation text NOT NULL,
  "row" integer NOT NULL,
  reader_class bigint NOT NULL,
  records bytea NOT NULL,
  PRIMARY KEY (placement, generation, "row")
) PARTITION BY LIST (placement);
ALTER TABLE citelock.sentence_vectors ALTER COLUMN records SET STORAGE EXTERNAL; -- hardly compressible

CREATE TABLE citelock.postings (
  tenant_id uuid NOT NULL,
  placement uuid NOT NULL,
  generation text NOT NULL,
  kind text NOT NULL, -- lexical or keyword: the index that has the term
  term_hash bigint NOT NULL, -- a term may be longer than a key of an index
  term text NOT NULL,
  reader_class bigint NOT NULL,
  chunks integer NOT NULL,
  "rows" bytea NOT NULL, -- int32, little endian, ascending
  counts bytea NOT NULL, -- the same; empty: 1 each
  PRIMARY KEY (placement, generation, kind, term_hash, reader_class, term)
) PARTITION BY LIST (placement);

-- Catalogs: rows of one reader class as Arrow tables, so that a reader has its own in one read.
CREATE TABLE citelock.catalog_blocks (
  tenant_id uuid NOT NULL,
  generation text NOT NULL,
  kind text NOT NULL CHECK (kind IN ('chunks', 'places', 'originals')),
  reader_class bigint NOT NULL,
  block integer NOT NULL,
  content bytea NOT NULL,
  PRIMARY KEY (tenant_id, generation, kind, reader_class, block)
);
ALTER TABLE citelock.catalog_blocks ALTER COLUMN content SET STORAGE EXTERNAL; -- compressed already

CREATE TABLE citelock.original_rights (
  tenant_id uuid NOT NULL,
  generation text NOT NULL,
  sha256 text NOT NULL,
  reader_class bigint NOT NULL,
  PRIMARY KEY (tenant_id, generation, sha256, reader_class)
);

CREATE TABLE citelock.original_files (
  tenant_id uuid NOT NULL,
  sha256 text NOT NULL,
  content bytea NOT NULL,
  PRIMARY KEY (tenant_id, sha256)
);
ALTER TABLE citelock.original_files ALTER COLUMN content SET STORAGE EXTERNAL;

-- Buckets of small tenants.
DO $$
DECLARE
  parent text;
BEGIN
  FOREACH parent IN ARRAY ARRAY['document_chunks', 'chunk_windows', 'sentence_vectors', 'postings'] LOOP
    FOR number IN 0..15 LOOP
      EXECUTE format(
        'CREATE TABLE citelock.%I PARTITION OF citelock.%I FOR VALUES IN (%L)',
        parent || '_shared_' || number, parent,
        '00000000-0000-0000-0000-0000000000' || lpad(to_hex(number), 2, '0')
      );
      EXECUTE format('ALTER TABLE citelock.%I ENABLE ROW LEVEL SECURITY', parent || '_shared_' || number);
      EXECUTE format('ALTER TABLE citelock.%I FORCE ROW LEVEL SECURITY', parent || '_shared_' || number);
    END LOOP;
  END LOOP;
END $$;
