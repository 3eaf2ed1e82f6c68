// The view /p/{page_id}: a page of its own, at what the address names behind `#`: `chunk=ID`, `page=NUMBER`, or an anchor.

import { useMemo } from "preact/hooks";
import { t } from "../i18n";
import { decoded, go } from "../state/route";
import type { Place } from "../state/viewer";
import { Source } from "./Source";
import "./viewer.css";

/** Show a page alone. */
export function PageView({ pageId }: { pageId: string }) {
  const place = useMemo<Place>(() => ({ pageId, marks: [], citation: null, ...namedBy(location.hash) }), [pageId]);
  return (
    <article class="viewer-alone" aria-label={t("viewer.label")}>
      <Source place={place} level={1} onAsk={() => go("/")} />
    </article>
  );
}

function namedBy(hash: string): Pick<Place, "chunkId" | "page" | "anchor"> {
  const named = new URLSearchParams(hash.slice(1));
  const page = Number(named.get("page"));
  const anchor = decoded(hash.slice(1));
  return { chunkId: named.get("chunk") || null, page: Number.isInteger(page) && page > 0 ? page : null, ...(anchor ? { anchor } : {}) };
}
