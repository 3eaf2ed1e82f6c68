// The pages that the viewer read, and where a quote stands in them.

import { effect } from "@preact/signals";
import { load } from "../api/client";
import type { Chunk, Citation, SourcePage } from "../api/types";
import { reader } from "../state/session";
import type { Place } from "../state/viewer";
import type { Mark } from "./ranges";

const KEPT = 6;
const kept = new Map<string, Promise<SourcePage>>();

/** Return a page; the last few are kept while the browser's page is open, failures are not. */
export function pageOf(pageId: string): Promise<SourcePage> {
  const known = kept.get(pageId);
  if (known) return known;
  const loading = load<SourcePage>(`/v1/pages/${encodeURIComponent(pageId)}`);
  kept.set(pageId, loading);
  loading.catch(() => kept.delete(pageId));
  for (const oldest of kept.keys()) {
    if (kept.size <= KEPT) break;
    kept.delete(oldest);
  }
  return loading;
}

// Another reader may see others.
effect(() => {
  void reader.value;
  kept.clear();
});

/** Where to scroll to and what to mark there. */
export interface Target {
  chunkId: string | null;
  marks: Mark[];
  /** Whether the page no longer has the quote that was asked for. */
  lost: boolean;
}

const TOP: Target = { chunkId: null, marks: [], lost: false };

/** Find a place in a page. A quote whose passage has another name by now is looked for in the page's text. */
export function targetIn(page: SourcePage, place: Pick<Place, "chunkId" | "marks" | "citation" | "anchor">): Target {
  if (!place.chunkId) {
    const section = place.anchor ? page.sections.find(({ anchor }) => anchor === place.anchor) : undefined;
    return { ...TOP, chunkId: section?.chunks[0]?.chunk_id ?? null };
  }
  const chunks = page.sections.flatMap((section) => section.chunks);
  const chunk = chunks.find((each) => each.chunk_id === place.chunkId);
  const quote = place.citation?.quote;
  if (chunk && (!quote || fits(chunk, place.marks))) return { chunkId: chunk.chunk_id, marks: place.marks, lost: false };
  const moved = quote ? chunks.find((each) => each.text.includes(quote)) : undefined;
  if (!moved || !quote) return { ...TOP, chunkId: chunk?.chunk_id ?? null, lost: true };
  const start = moved.text.indexOf(quote);
  return { chunkId: moved.chunk_id, marks: [{ start, end: start + quote.length, index: place.citation!.index }], lost: false };
}

/** The part of a quote on one page of a file, and what stands around it in the text. */
export interface QuotePart {
  page: number;
  quote: string;
  before: string;
  after: string;
}

const AROUND = 80;

/** Return a quote by the pages of a file that it goes over; all of it on `first` where its passage does not tell. */
export function quoteParts(page: SourcePage, citation: Citation | null, first: number): QuotePart[] {
  if (!citation) return [];
  const chunk = page.sections.flatMap(({ chunks }) => chunks).find(({ chunk_id }) => chunk_id === citation.chunk_id);
  const signs = [...(chunk?.text ?? "")]; // the server counts characters
  const { start, end, quote } = citation;
  if (signs.slice(start, end).join("") !== quote) return [{ page: first, quote, before: "", after: "" }];
  const begun = chunk!.pages?.filter(([at]) => at <= start).at(-1)?.[1] ?? first;
  const borders = [[start, begun] as const, ...(chunk!.pages ?? []).filter(([at]) => at > start && at < end)];
  const text = (from: number, to: number) => signs.slice(Math.max(0, from), to).join("");
  return borders.map(([from, number], place) => {
    const to = borders[place + 1]?.[0] ?? end;
    return { page: number, quote: text(from, to), before: text(from - AROUND, from), after: text(to, to + AROUND) };
  });
}

function fits(chunk: Chunk, marks: Mark[]): boolean {
  return marks.every((mark) => mark.start >= 0 && mark.end <= chunk.text.length);
}
