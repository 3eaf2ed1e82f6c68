// What the source viewer beside the answer shows.

import { signal } from "@preact/signals";
import type { Citation } from "../api/types";
import type { Selection } from "./selection";

/** A place in a page: a passage with a marked range of its text, or the page from its top. */
export interface Place {
  pageId: string;
  chunkId: string | null;
  marks: { start: number; end: number; index: number }[];
  page: number | null;
  citation: Citation | null;
  /** The anchor of a heading, where no passage is named. */
  anchor?: string;
  /** The text that was asked about instead of a page; marks are offsets into it. */
  selection?: Selection;
}

/** The place that is shown; null while the viewer is closed. */
export const place = signal<Place | null>(null);

/** The element that opened the viewer: focus returns to it. */
let opener: HTMLElement | null = null;

/** Show a citation's quote where it stands: in its page, or in the selected text that the question was about. */
export function openCitation(citation: Citation, selection?: Selection | null): void {
  const { chunk_id, start, end, index, page = null } = citation;
  const pageId = citation.page_id ?? chunk_id.split(":").slice(0, -2).join(":");
  open({ pageId, chunkId: chunk_id, marks: [{ start, end, index }], page, citation, ...(selection ? { selection } : {}) });
}

/** Show a page, or a passage of it without a marked quote. */
export function openPage(pageId: string, chunkId: string | null = null): void {
  open({ pageId, chunkId, marks: [], page: null, citation: null });
}

/** Close the viewer and give the focus back. */
export function closeViewer(): void {
  place.value = null;
  opener?.focus();
  opener = null;
}

function open(next: Place): void {
  if (!place.value && document.activeElement instanceof HTMLElement) opener = document.activeElement;
  place.value = next;
}
