-- Row policies let an index find words only by an operator that is known to tell nothing of the rows that it looks at.
-- This one does what @@ of the system does, and is declared so. Needs a superuser; without it the system's own is used,
-- and row by row.
CREATE FUNCTION citelock.has_words(tsvector, tsquery) RETURNS boolean
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE LEAKPROOF AS 'ts_match_vq';
CREATE OPERATOR citelock.@@@ (
  LEFTARG = tsvector, RIGHTARG = tsquery, FUNCTION = citelock.has_words, RESTRICT = tsmatchsel, JOIN = tsmatchjoinsel
);
CREATE OPERATOR CLASS citelock.words_ops FOR TYPE tsvector USING gin AS
  OPERATOR 1 citelock.@@@ (tsvector, tsquery),
  FUNCTION 1 gin_cmp_tslexeme(text, text),
  FUNCTION 2 gin_extract_tsvector(tsvector, internal, internal),
  FUNCTION 3 gin_extract_tsquery(tsvector, internal, smallint, internal, internal, internal, internal),
  FUNCTION 4 gin_tsquery_consistent(internal, smallint, tsvector, integer, internal, internal, internal, internal),
  FUNCTION 5 gin_cmp_prefix(text, text, smallint, internal),
  FUNCTION 6 gin_tsquery_triconsistent(internal, smallint, tsvector, integer, internal, internal, internal),
  STORAGE text;
