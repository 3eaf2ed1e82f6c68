// A page in pieces that can be laid out one after the other.

import { signal, type Signal } from "@preact/signals";
import type { Chunk, PageSection, SourcePage } from "../api/types";

const PIECE_CHUNKS = 8;
const PIECE_CHARS = 4_000;
/** What a piece costs whatever it holds, in characters. */
const LEAST_CHARS = 200;

/** A part of one section; `heading` where the section begins. */
export interface Piece {
  id: string;
  heading: PageSection | null;
  depth: number;
  chunks: Chunk[];
  chars: number;
  ready: Signal<boolean>;
}

/** Cut a page into pieces of a few passages, none ready. The heading that repeats the page's title is left out. */
export function piecesOf(page: SourcePage): Piece[] {
  return page.sections.flatMap((section, place) =>
    groups(section.chunks).map((chunks, part) => ({
      id: part ? `s${place}-${part}` : `s${place}`,
      heading: part === 0 && !isTitle(section, page) ? section : null,
      depth: Math.max(1, section.heading_path.length - 1),
      chunks,
      chars: chunks.reduce((sum, chunk) => sum + chunk.text.length, 0),
      ready: signal(false),
    })),
  );
}

/** Return whether a section's heading is the page's title, which is shown once. */
export function isTitle(section: PageSection, page: SourcePage): boolean {
  return section.heading_path.length <= 1 && (section.heading === page.title || section.heading === "");
}

function groups(chunks: Chunk[]): Chunk[][] {
  const found: Chunk[][] = [[]];
  let chars = 0;
  for (const chunk of chunks) {
    const last = found[found.length - 1]!;
    if (last.length && (last.length >= PIECE_CHUNKS || chars + chunk.text.length > PIECE_CHARS)) {
      found.push([chunk]);
      chars = chunk.text.length;
    } else {
      last.push(chunk);
      chars += chunk.text.length;
    }
  }
  return found;
}

/** Make the pieces around one ready at once and the others little by little while nothing else is to do; returns a stop. */
export function readyFrom(pieces: Piece[], first: number): () => void {
  const order = [...pieces.keys()].sort((a, b) => Math.abs(a - first) - Math.abs(b - first));
  for (const place of order.splice(0, 3)) pieces[place]!.ready.value = true;
  let stopped = false;
  const idle = globalThis.requestIdleCallback ?? ((act: () => void) => setTimeout(act, 30));
  const more = (): void => {
    if (stopped) return;
    for (let chars = 0; order.length && chars < PIECE_CHARS; ) {
      const piece = pieces[order.shift()!]!;
      chars += piece.chars + LEAST_CHARS;
      piece.ready.value = true;
    }
    if (order.length) idle(more);
  };
  idle(more);
  return () => {
    stopped = true;
  };
}

/** Make all pieces ready: for printing. */
export function readyAll(pieces: Piece[]): void {
  for (const piece of pieces) piece.ready.value = true;
}
