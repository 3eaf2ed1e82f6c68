-- Hybrid search that finds as much above `index.ann_chunks` as below, whoever asks.
-- {match}: the operator that finds words, in an index where that may be used.
--
-- The settings that stand beside the function hold inside of it alone. The body sets those that depend on the question:
-- - whoever may read few chunks has all of them compared: an index of all rows would be walked to its end for them;
-- - else the HNSW index is walked on until enough rows passed the policies (hnsw.iterative_scan);
-- - no statistics of values are kept, so that the planner cannot know that the index is quicker than reading all rows.

-- Loads pgvector's library: only a superuser may name settings that no library of the session knows.
DO $$ BEGIN PERFORM '[1]'::{ext}.vector; END $$;

CREATE OR REPLACE FUNCTION citelock.search_chunks_hybrid(
  query_embedding {ext}.vector,
  query_text text,
  tenant uuid,
  k integer DEFAULT 20,
  weights float8[] DEFAULT NULL -- of similarity and text; NULL: as published
)
RETURNS TABLE (
  id uuid, document_id uuid, document_name text, chunk_index integer, page integer, content text,
  sim float8, bm25 float8, fused float8
)
LANGUAGE plpgsql STABLE SECURITY INVOKER SET search_path = pg_catalog, pg_temp
SET hnsw.iterative_scan = 'relaxed_order' SET hnsw.ef_search = 100 SET hnsw.max_scan_tuples = 20000
SET enable_seqscan = on SET enable_sort = on AS $$
#variable_conflict use_column
DECLARE
  now_at citelock.pointers;
  readable bigint;
  nearness text := 'c.embedding OPERATOR({ext}.<=>) $1';
  wanted integer := 5 * least(greatest(k, 1), 1000);
  words tsquery := citelock.text_query(query_text);
BEGIN
  SELECT * INTO now_at FROM citelock.pointers AS pointer WHERE pointer.tenant_id = tenant;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  SELECT coalesce(sum(known.chunks), 0) INTO readable FROM citelock.generation_classes AS known
  WHERE known.tenant_id = tenant AND known.generation = now_at.generation;
  PERFORM set_config('enable_seqscan', 'off', true);
  IF now_at.ann <> 'none' AND readable >= now_at.ann_chunks THEN
    nearness := format('(c.embedding::{ext}.%1$s(%2$s)) OPERATOR({ext}.<=>) ($1::{ext}.%1$s(%2$s))',
                       now_at.ann, now_at.dimension);
    PERFORM set_config('hnsw.ef_search', least(1000, greatest(now_at.ef_search, wanted))::text, true),
            set_config('hnsw.max_scan_tuples', '2147483647', true),
            set_config('enable_sort', 'off', true);
  END IF;
  RETURN QUERY EXECUTE format($q$
    WITH near AS (
      SELECT c."row" FROM citelock.document_chunks AS c
      WHERE c.tenant_id = $3 AND c.placement = $4 AND c.generation = $5 AND c.embedding IS NOT NULL
      ORDER BY %1$s LIMIT $6
    ), near_windows AS (
      SELECT c."row" FROM citelock.chunk_windows AS c
      WHERE c.tenant_id = $3 AND c.placement = $4 AND c.generation = $5 AND c.embedding IS NOT NULL
      ORDER BY %1$s LIMIT $6
    ), worded AS (
      SELECT c."row" FROM citelock.document_chunks AS c
      WHERE c.tenant_id = $3 AND c.placement = $4 AND c.generation = $5
        AND c.tsv {match} $2
      ORDER BY ts_rank(c.tsv, $2) DESC LIMIT $6
    ), candidates AS (
      SELECT array(SELECT "row" FROM near UNION SELECT "row" FROM near_windows UNION SELECT "row" FROM worded) AS rows
    ), scored AS (
      SELECT c.id, c.document_id, c.metadata ->> 'title' AS name, c.chunk_index, c.page, c.content,
        coalesce(1 - (c.embedding OPERATOR({ext}.<=>) $1), (
          SELECT max(1 - (w.embedding OPERATOR({ext}.<=>) $1)) FROM citelock.chunk_windows AS w
          WHERE w.tenant_id = $3 AND w.placement = $4 AND w.generation = $5 AND w."row" = c."row"
        ), 0) AS sim,
        ts_rank(c.tsv, $2)::float8 AS bm25
      FROM citelock.document_chunks AS c
      WHERE c.tenant_id = $3 AND c.placement = $4 AND c.generation = $5
        AND c."row" = ANY ((SELECT rows FROM candidates)::integer[])
    )
    SELECT *, $7[1] * sim + $7[2] * bm25 AS fused FROM scored ORDER BY fused DESC, id LIMIT $8
  $q$, nearness)
  USING query_embedding, words, tenant, now_at.placement, now_at.generation, wanted,
    coalesce(weights, now_at.weights), least(greatest(k, 1), 1000);
END $$;
