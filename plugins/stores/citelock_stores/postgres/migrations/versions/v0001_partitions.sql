-- Partitions are made, filled and dropped in the name of a publisher, for the tenant of its signed claims alone.
-- {ext}: the schema of pgvector.

CREATE FUNCTION citelock.publishing_tenant() RETURNS uuid
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  tenant uuid := citelock.tenant_as('publisher');
BEGIN
  IF tenant IS NULL THEN
    RAISE EXCEPTION 'no valid claims of a publisher' USING ERRCODE = 'insufficient_privilege';
  END IF;
  RETURN tenant;
END $$;

-- The name of a tenant's partition of a table, or of one generation's below it: opaque, as everybody sees catalogs.
CREATE FUNCTION citelock.partition_name(parent text, tenant uuid, generation text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF parent NOT IN ('document_chunks', 'chunk_windows', 'sentence_vectors', 'postings') THEN
    RAISE EXCEPTION 'no such table' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  RETURN parent || '_' || left(replace(tenant::text, '-', ''), 16)
    || coalesce('_' || left(encode(sha256(convert_to(tenant::text || generation, 'UTF8')), 'hex'), 12), '');
END $$;

CREATE FUNCTION citelock.is_attached(leaf text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce((SELECT relispartition FROM pg_class
                   WHERE relnamespace = 'citelock'::regnamespace AND relname = leaf), false)
$$;

-- Keep no statistics of values: they would tell, by a plan's estimates, what rows hold that nobody may see. `kept`:
-- columns whose values tell nothing.
CREATE FUNCTION citelock.forget_statistics(relation regclass, kept text[] DEFAULT '{}') RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  attribute record;
BEGIN
  FOR attribute IN SELECT attnum, attname FROM pg_attribute WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped
  LOOP
    IF (SELECT relkind FROM pg_class WHERE oid = relation) = 'i' THEN
      EXECUTE format('ALTER INDEX %s ALTER COLUMN %s SET STATISTICS 0', relation, attribute.attnum);
    ELSIF attribute.attname <> ALL (kept) THEN
      EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET STATISTICS 0', relation, attribute.attname);
    END IF;
  END LOOP;
END $$;
SELECT citelock.forget_statistics(c.oid) FROM pg_class c
WHERE c.relnamespace = 'citelock'::regnamespace AND c.relkind IN ('r', 'p')
  AND c.relname NOT IN ('schema_version', 'claim_keys');

-- Make the table of one generation, beside its parent: nobody waits for it, and COPY may fill it.
CREATE FUNCTION citelock.stage(parent text, generation text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET client_min_messages = warning AS $$
DECLARE
  tenant uuid := citelock.publishing_tenant();
  leaf text := citelock.partition_name(parent, tenant, generation);
BEGIN
  IF citelock.is_attached(leaf) THEN
    RAISE EXCEPTION 'the generation is there already' USING ERRCODE = 'duplicate_table';
  END IF;
  EXECUTE format('DROP TABLE IF EXISTS citelock.%I', leaf);
  EXECUTE format('CREATE TABLE citelock.%I (LIKE citelock.%I INCLUDING DEFAULTS INCLUDING GENERATED '
                 'INCLUDING STORAGE, CHECK (placement = %L AND tenant_id = %L AND generation = %L)) '
                 'WITH (toast_tuple_target = 256)', leaf, parent, tenant, tenant, generation);
  PERFORM citelock.forget_statistics(format('citelock.%I', leaf)::regclass,
                                     ARRAY['tenant_id', 'placement', 'generation', 'row']);
  EXECUTE format('GRANT INSERT ON citelock.%I TO citelock_writer', leaf);
  RETURN leaf;
END $$;

-- Make the HNSW index of a staged table: over vectors or halfvecs of one dimension.
CREATE FUNCTION citelock.make_ann(parent text, generation text, kind text, dimension integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET client_min_messages = warning AS $$
DECLARE
  leaf text := citelock.partition_name(parent, citelock.publishing_tenant(), generation);
BEGIN
  IF kind NOT IN ('vector', 'halfvec') OR dimension NOT BETWEEN 1 AND 4000 OR citelock.is_attached(leaf) THEN
    RAISE EXCEPTION 'no such index' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  EXECUTE format('CREATE INDEX %I ON citelock.%I USING hnsw ((embedding::{ext}.%s(%s)) {ext}.%s_cosine_ops) '
                 'WITH (m = 16, ef_construction = 100) WHERE embedding IS NOT NULL', leaf || '_ann', leaf, kind, dimension, kind);
  PERFORM citelock.forget_statistics(format('citelock.%I', leaf || '_ann')::regclass);
END $$;

-- Make a staged table a partition: from the commit on, all of it is there.
CREATE FUNCTION citelock.attach(parent text, generation text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET client_min_messages = warning AS $$
DECLARE
  tenant uuid := citelock.publishing_tenant();
  own text := citelock.partition_name(parent, tenant);
  leaf text := citelock.partition_name(parent, tenant, generation);
BEGIN
  EXECUTE format('REVOKE ALL ON citelock.%I FROM citelock_writer', leaf);
  EXECUTE format('ALTER TABLE citelock.%I ENABLE ROW LEVEL SECURITY', leaf);
  EXECUTE format('ALTER TABLE citelock.%I FORCE ROW LEVEL SECURITY', leaf);
  IF to_regclass(format('citelock.%I', own)) IS NULL THEN
    EXECUTE format('CREATE TABLE citelock.%I (LIKE citelock.%I INCLUDING DEFAULTS INCLUDING GENERATED '
                   'INCLUDING STORAGE INCLUDING INDEXES) PARTITION BY LIST (generation)', own, parent);
    PERFORM citelock.forget_statistics(format('citelock.%I', own)::regclass);
    EXECUTE format('ALTER TABLE citelock.%I ENABLE ROW LEVEL SECURITY', own);
    EXECUTE format('ALTER TABLE citelock.%I FORCE ROW LEVEL SECURITY', own);
    EXECUTE format('ALTER TABLE citelock.%I ATTACH PARTITION citelock.%I FOR VALUES IN (%L)', parent, own, tenant);
  END IF;
  EXECUTE format('ALTER TABLE citelock.%I ATTACH PARTITION citelock.%I FOR VALUES IN (%L)', own, leaf, generation);
  EXECUTE format('ANALYZE citelock.%I', leaf);
END $$;

-- Drop the partitions of a generation that the pointer does not name, and what a publication left unfinished.
CREATE FUNCTION citelock.drop_partitions(generation text) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET client_min_messages = warning AS $$
DECLARE
  tenant uuid := citelock.publishing_tenant();
  parent text;
  leaf text;
  dropped integer := 0;
BEGIN
  IF EXISTS (SELECT FROM citelock.pointers AS pointer
             WHERE pointer.tenant_id = tenant AND pointer.generation = drop_partitions.generation) THEN
    RAISE EXCEPTION 'the generation is published' USING ERRCODE = 'object_in_use';
  END IF;
  FOREACH parent IN ARRAY ARRAY['document_chunks', 'chunk_windows', 'sentence_vectors', 'postings'] LOOP
    leaf := citelock.partition_name(parent, tenant, generation);
    IF to_regclass(format('citelock.%I', leaf)) IS NOT NULL THEN
      EXECUTE format('DROP TABLE citelock.%I', leaf);
      dropped := dropped + 1;
    END IF;
  END LOOP;
  RETURN dropped;
END $$;
