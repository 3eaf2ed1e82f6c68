// The text that the next question is about: selected in the source viewer, or handed over by another site.

import { signal } from "@preact/signals";

/** A selected text and where it comes from. `origin` is the site that handed it over, null for the source viewer. */
export interface Selection {
  text: string;
  title: string;
  url: string | null;
  origin: string | null;
  pageId: string | null;
}

/** The selected text; null where questions are asked of all pages. Answers cite offsets into its `text`. */
export const selection = signal<Selection | null>(null);

/** Ask about a text from now on, until it is dropped. */
export function selectText(next: Selection): void {
  selection.value = next;
}

/** Ask about all pages again. */
export function dropSelection(): void {
  selection.value = null;
}
