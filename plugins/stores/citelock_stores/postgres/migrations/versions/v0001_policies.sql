-- Who may see and write what. Nothing is open but what a policy opens; owner of all is citelock_owner, who sees no row
-- either.

DO $$
DECLARE
  name text;
  own text := $q$tenant_id = (SELECT citelock.tenant_as('reader'))$q$;
  open text := $q$reader_class = ANY ((SELECT citelock.classes())::bigint[])$q$;
  placed text := $q$placement IN ((SELECT citelock.tenant_as('reader')),
                                  (SELECT citelock.bucket(citelock.tenant_as('reader'))))$q$;
  published text := $q$tenant_id = (SELECT citelock.tenant_as('publisher'))$q$;
  placed_by text := $q$placement IN ((SELECT citelock.tenant_as('publisher')),
                                     (SELECT citelock.bucket(citelock.tenant_as('publisher'))))$q$;
  writes text;
BEGIN
  FOR name IN
    SELECT relname FROM pg_class WHERE relnamespace = 'citelock'::regnamespace AND relkind IN ('r', 'p')
      AND NOT relispartition AND relname NOT IN ('schema_version', 'claim_keys')
  LOOP
    EXECUTE format('ALTER TABLE citelock.%I ENABLE ROW LEVEL SECURITY', name);
    EXECUTE format('ALTER TABLE citelock.%I FORCE ROW LEVEL SECURITY', name);
    EXECUTE format('GRANT SELECT ON citelock.%I TO citelock_app', name);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON citelock.%I TO citelock_writer', name);
    writes := published;
    IF name IN ('document_chunks', 'chunk_windows', 'sentence_vectors', 'postings') THEN
      writes := published || ' AND ' || placed_by;
      EXECUTE format('CREATE POLICY readers ON citelock.%I FOR SELECT TO citelock_app USING (%s AND %s AND %s)',
                     name, own, placed, open);
    ELSIF name IN ('documents', 'generation_classes', 'catalog_blocks', 'original_rights') THEN
      EXECUTE format('CREATE POLICY readers ON citelock.%I FOR SELECT TO citelock_app USING (%s AND %s)',
                     name, own, open);
    END IF;
    EXECUTE format('CREATE POLICY publisher_sees ON citelock.%I FOR SELECT TO citelock_writer USING (%s)',
                   name, writes);
    EXECUTE format('CREATE POLICY publisher_adds ON citelock.%I FOR INSERT TO citelock_writer WITH CHECK (%s)',
                   name, writes);
    EXECUTE format('CREATE POLICY publisher_changes ON citelock.%I FOR UPDATE TO citelock_writer '
                   'USING (%s) WITH CHECK (%s)', name, writes, writes);
    EXECUTE format('CREATE POLICY publisher_removes ON citelock.%I FOR DELETE TO citelock_writer USING (%s)',
                   name, writes);
  END LOOP;
END $$;

CREATE POLICY readers ON citelock.pointers FOR SELECT TO citelock_app
  USING (tenant_id IN ((SELECT citelock.tenant_as('reader')), (SELECT citelock.tenant_as('server'))));
CREATE POLICY servers ON citelock.generations FOR SELECT TO citelock_app
  USING (tenant_id = (SELECT citelock.tenant_as('server')));
CREATE POLICY readers ON citelock.reader_classes FOR SELECT TO citelock_app
  USING (tenant_id = (SELECT citelock.tenant_as('reader')) AND id = ANY ((SELECT citelock.classes())::bigint[]));
CREATE POLICY claims_are_looked_up ON citelock.reader_classes FOR SELECT TO citelock_owner
  USING (tenant_id = (SELECT citelock.tenant_as('reader')));
CREATE POLICY readers ON citelock.original_files FOR SELECT TO citelock_app
  USING (tenant_id = (SELECT citelock.tenant_as('reader'))
         AND EXISTS (SELECT FROM citelock.original_rights AS rights
                     WHERE rights.tenant_id = original_files.tenant_id AND rights.sha256 = original_files.sha256));
-- Whether a generation is still the current one, for what drops its partitions.
CREATE POLICY publishers ON citelock.pointers FOR SELECT TO citelock_owner
  USING (tenant_id = (SELECT citelock.tenant_as('publisher')));

REVOKE ALL ON citelock.claim_keys FROM PUBLIC, citelock_app, citelock_writer;
GRANT SELECT ON citelock.schema_version TO citelock_app, citelock_writer;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA citelock FROM PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA citelock TO citelock_app, citelock_writer;
GRANT USAGE ON SCHEMA citelock TO citelock_app, citelock_writer;
