-- Hybrid search for other programs: similarity and full text in one call, as the caller's claims open the rows.
-- {ext}: the schema of pgvector. {match}: the operator that finds words, in an index where that may be used.

-- A question's words in every language's configuration at once: one query, that an index can be asked with.
CREATE FUNCTION citelock.text_query(question text) RETURNS tsquery
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp SET client_min_messages = warning AS $$
DECLARE
  lang text;
  one tsquery;
  every tsquery := '';
BEGIN
  FOREACH lang IN ARRAY ARRAY['en', 'de', 'fr', 'es', 'it', 'pt', 'nl', 'sv', 'da', 'no', 'fi', 'ru', 'hu', 'ro', 'tr']
  LOOP
    one := plainto_tsquery(citelock.text_config(lang), left(question, 4000));
    IF numnode(one) > 0 THEN
      every := CASE WHEN numnode(every) = 0 THEN one ELSE every || one END;
    END IF;
  END LOOP;
  RETURN every;
END $$;

CREATE FUNCTION citelock.search_chunks_hybrid(
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
LANGUAGE plpgsql STABLE SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  now_at citelock.pointers;
  distance text;
  wanted integer;
  words tsquery := citelock.text_query(query_text);
BEGIN
  SELECT * INTO now_at FROM citelock.pointers AS pointer WHERE pointer.tenant_id = tenant;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  wanted := 5 * least(greatest(k, 1), 1000);
  distance := format('(c.embedding::{ext}.%1$s(%2$s)) OPERATOR({ext}.<=>) ($1::{ext}.%1$s(%2$s))',
                     CASE now_at.ann WHEN 'halfvec' THEN 'halfvec' ELSE 'vector' END, now_at.dimension);
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
      SELECT "row" FROM near UNION SELECT "row" FROM near_windows UNION SELECT "row" FROM worded
    ), scored AS (
      SELECT c.id, c.document_id, c.metadata ->> 'title' AS name, c.chunk_index, c.page, c.content,
        coalesce(1 - (c.embedding OPERATOR({ext}.<=>) $1), (
          SELECT max(1 - (w.embedding OPERATOR({ext}.<=>) $1)) FROM citelock.chunk_windows AS w
          WHERE w.tenant_id = $3 AND w.placement = $4 AND w.generation = $5 AND w."row" = c."row"
        ), 0) AS sim,
        ts_rank(c.tsv, $2)::float8 AS bm25
      FROM candidates JOIN citelock.document_chunks AS c USING ("row")
      WHERE c.tenant_id = $3 AND c.placement = $4 AND c.generation = $5
    )
    SELECT *, $7[1] * sim + $7[2] * bm25 AS fused FROM scored ORDER BY fused DESC, id LIMIT $8
  $q$, distance)
  USING query_embedding, words, tenant, now_at.placement, now_at.generation, wanted,
    coalesce(weights, now_at.weights), least(greatest(k, 1), 1000);
END $$;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA citelock FROM PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA citelock TO citelock_app, citelock_writer;
REVOKE ALL ON FUNCTION citelock.stage, citelock.make_ann, citelock.attach, citelock.drop_partitions FROM citelock_app;
