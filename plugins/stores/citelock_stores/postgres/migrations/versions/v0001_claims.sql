-- Claims that only the installation can sign, and who they let read or write. {ext}: the schema of pgvector.

CREATE TABLE citelock.claim_keys (
  only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
  inner_pad bytea NOT NULL CHECK (octet_length(inner_pad) = 64), -- key xor 0x36…, RFC 2104
  outer_pad bytea NOT NULL CHECK (octet_length(outer_pad) = 64) -- key xor 0x5c…
);

-- The claims of this transaction; NULL where they are not signed, altered, or over.
CREATE FUNCTION citelock.claims() RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL RESTRICTED SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  said text := current_setting('request.jwt.claims', true);
  signature text := current_setting('request.jwt.signature', true);
  pads record;
  signed bytea;
  claims jsonb;
BEGIN
  IF said IS NULL OR signature IS NULL OR length(said) > 4000000 OR signature !~ '^[0-9a-f]{64}$' THEN
    RETURN NULL;
  END IF;
  SELECT inner_pad, outer_pad INTO pads FROM citelock.claim_keys;
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  signed := sha256(pads.outer_pad || sha256(pads.inner_pad || convert_to(said, 'UTF8')));
  -- Digests are compared, so that how long it takes tells nothing of the signature.
  IF sha256(signed) IS DISTINCT FROM sha256(decode(signature, 'hex')) THEN
    RETURN NULL;
  END IF;
  claims := said::jsonb;
  IF coalesce((claims ->> 'exp')::float8, 0) < extract(epoch FROM clock_timestamp()) THEN
    RETURN NULL;
  END IF;
  RETURN claims;
END $$;

-- The tenant that the claims name, if they are of this role: reader, server or publisher.
CREATE FUNCTION citelock.tenant_as(wanted text) RETURNS uuid
LANGUAGE plpgsql STABLE PARALLEL RESTRICTED SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  claims jsonb := citelock.claims();
BEGIN
  IF claims ->> 'role' = wanted THEN
    RETURN (claims ->> 'tenant_id')::uuid;
  END IF;
  RETURN NULL;
END $$;

-- The placement that a tenant shares with others as long as it is small.
CREATE FUNCTION citelock.bucket(tenant uuid) RETURNS uuid
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
  SELECT ('00000000-0000-0000-0000-0000000000' || lpad(to_hex(get_byte(uuid_send(tenant), 15) & 15), 2, '0'))::uuid
$$;

-- Reader classes of a tenant: each a conjunction of clauses, of each of which one name has to match.
CREATE TABLE citelock.reader_classes (
  tenant_id uuid NOT NULL,
  id bigint NOT NULL, -- a keyed digest: nobody can guess it
  class text NOT NULL,
  clauses jsonb NOT NULL, -- [["group:staff", "user:alice"], ["group:ops"]]; [] is everyone, [[]] nobody
  anchor text[], -- names of the smallest clause; NULL: everyone
  PRIMARY KEY (tenant_id, id)
);

-- The classes that the claims satisfy; looked up once a statement.
CREATE FUNCTION citelock.classes() RETURNS bigint[]
LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL RESTRICTED SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  claims jsonb := citelock.claims();
  names text[];
BEGIN
  IF claims ->> 'role' IS DISTINCT FROM 'reader' THEN
    RETURN '{}';
  END IF;
  names := ARRAY(
    SELECT 'user:' || (claims ->> 'sub') WHERE coalesce(claims ->> 'sub', '') <> ''
    UNION ALL
    SELECT 'group:' || name FROM jsonb_array_elements_text(coalesce(claims -> 'groups', '[]')) AS name
  );
  RETURN coalesce((
    SELECT array_agg(known.id)
    FROM citelock.reader_classes AS known
    WHERE known.tenant_id = (claims ->> 'tenant_id')::uuid
      AND (known.anchor IS NULL OR known.anchor && names)
      AND NOT EXISTS (SELECT FROM jsonb_array_elements(known.clauses) AS clause WHERE NOT clause ?| names)
  ), '{}');
END $$;

-- The configuration of full text search for a language.
CREATE FUNCTION citelock.text_config(lang text) RETURNS regconfig
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE lang
    WHEN 'en' THEN 'pg_catalog.english'::regconfig WHEN 'de' THEN 'pg_catalog.german'::regconfig
    WHEN 'fr' THEN 'pg_catalog.french'::regconfig WHEN 'es' THEN 'pg_catalog.spanish'::regconfig
    WHEN 'it' THEN 'pg_catalog.italian'::regconfig WHEN 'pt' THEN 'pg_catalog.portuguese'::regconfig
    WHEN 'nl' THEN 'pg_catalog.dutch'::regconfig WHEN 'sv' THEN 'pg_catalog.swedish'::regconfig
    WHEN 'da' THEN 'pg_catalog.danish'::regconfig WHEN 'no' THEN 'pg_catalog.norwegian'::regconfig
    WHEN 'fi' THEN 'pg_catalog.finnish'::regconfig WHEN 'ru' THEN 'pg_catalog.russian'::regconfig
    WHEN 'hu' THEN 'pg_catalog.hungarian'::regconfig WHEN 'ro' THEN 'pg_catalog.romanian'::regconfig
    WHEN 'tr' THEN 'pg_catalog.turkish'::regconfig
    ELSE 'pg_catalog.english'::regconfig
  END
$$;
