-- Dropping the partitions of one generation, and those of a whole tenant, are two functions.

-- Drop the partitions of a generation that the pointer does not name, and what a publication left unfinished.
CREATE OR REPLACE FUNCTION citelock.drop_partitions(generation text) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET client_min_messages = warning AS $$
DECLARE
  tenant uuid := citelock.publishing_tenant();
  parent text;
  leaf text;
  dropped integer := 0;
BEGIN
  IF drop_partitions.generation IS NULL THEN -- would be the name of all that the tenant has
    RAISE EXCEPTION 'no generation is named' USING ERRCODE = 'null_value_not_allowed';
  END IF;
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

-- Drop the partitions of all generations of a tenant that has nothing published: its pointer goes first.
CREATE FUNCTION citelock.erase_partitions() RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET client_min_messages = warning AS $$
DECLARE
  tenant uuid := citelock.publishing_tenant();
  parent text;
  own text;
  dropped integer := 0;
BEGIN
  IF EXISTS (SELECT FROM citelock.pointers AS pointer WHERE pointer.tenant_id = tenant) THEN
    RAISE EXCEPTION 'a generation of the tenant is published' USING ERRCODE = 'object_in_use';
  END IF;
  FOREACH parent IN ARRAY ARRAY['document_chunks', 'chunk_windows', 'sentence_vectors', 'postings'] LOOP
    own := citelock.partition_name(parent, tenant);
    IF to_regclass(format('citelock.%I', own)) IS NOT NULL THEN
      EXECUTE format('DROP TABLE citelock.%I', own);
      dropped := dropped + 1;
    END IF;
  END LOOP;
  RETURN dropped;
END $$;
REVOKE ALL ON FUNCTION citelock.erase_partitions() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION citelock.erase_partitions() TO citelock_writer;
