-- What `search_chunks_hybrid` has to know of a publication, and a kind of block for the seals of reader classes.

ALTER TABLE citelock.pointers
  ADD COLUMN ann_chunks integer NOT NULL DEFAULT 20000, -- readable chunks below which all of them are compared
  ADD COLUMN ef_search integer NOT NULL DEFAULT 320 CHECK (ef_search BETWEEN 1 AND 1000);
SELECT citelock.forget_statistics('citelock.pointers'::regclass);

ALTER TABLE citelock.catalog_blocks DROP CONSTRAINT catalog_blocks_kind_check;
ALTER TABLE citelock.catalog_blocks ADD CONSTRAINT catalog_blocks_kind_check
  CHECK (kind IN ('chunks', 'places', 'originals', 'seals')) NOT VALID; -- those that are there passed a narrower one
