// Which characters of a passage's text are marked, emphasized or linked. Offsets are those of the passage's text.

import type { Run } from "../api/types";

export interface Mark {
  start: number;
  end: number;
  index: number;
}

/** Characters with one style and one mark or none. */
export interface Leaf {
  start: number;
  end: number;
  mark: Mark | null;
}

/** A run with what stands inside of it. */
export interface Branch {
  run: Run;
  inner: (Leaf | Branch)[];
}

/** What lies over a text: styles, marks, and characters that are not shown. */
export interface Layers {
  runs: Run[];
  marks: Mark[];
  hidden: [number, number][];
}

/** Split [start, end) at runs and marks. Runs nest; one that only partly lies inside another is left out. */
export function inlineParts(start: number, end: number, { runs, marks, hidden }: Layers): (Leaf | Branch)[] {
  const parts: (Leaf | Branch)[] = [];
  const plain = (from: number, to: number) => shownParts(from, to, hidden).flatMap(([first, last]) => leaves(first, last, marks));
  const inside = runs.filter((run) => run.start >= start && run.end <= end && run.start < run.end);
  inside.sort((a, b) => a.start - b.start || b.end - a.end);
  let at = start;
  inside.forEach((run, place) => {
    if (run.start < at) return;
    parts.push(...plain(at, run.start));
    parts.push({ run, inner: inlineParts(run.start, run.end, { runs: inside.slice(place + 1), marks, hidden }) });
    at = run.end;
  });
  parts.push(...plain(at, end));
  return parts;
}

function shownParts(start: number, end: number, hidden: [number, number][]): [number, number][] {
  const parts: [number, number][] = [];
  let at = start;
  for (const [from, to] of hidden) {
    if (to <= at || from >= end) continue;
    if (from > at) parts.push([at, from]);
    at = to;
  }
  if (at < end) parts.push([at, end]);
  return parts;
}

/** Split [start, end) at marks; where marks overlap, the first one counts. */
export function leaves(start: number, end: number, marks: Mark[]): Leaf[] {
  const found: Leaf[] = [];
  let at = start;
  for (const mark of [...marks].sort((a, b) => a.start - b.start)) {
    const from = Math.max(at, mark.start);
    const to = Math.min(end, mark.end);
    if (from >= to) continue;
    if (from > at) found.push({ start: at, end: from, mark: null });
    found.push({ start: from, end: to, mark });
    at = to;
  }
  if (at < end) found.push({ start: at, end, mark: null });
  return found;
}

export interface Item {
  start: number;
  end: number;
  inner: Item[];
}

/** Nest the items of a list by their depths. */
export function nested(items: [number, number, number][]): Item[] {
  const top: Item[] = [];
  const open: { depth: number; inner: Item[] }[] = [{ depth: -1, inner: top }];
  for (const [start, end, depth] of items) {
    while (open.length > 1 && open[open.length - 1]!.depth >= depth) open.pop();
    const item: Item = { start, end, inner: [] };
    open[open.length - 1]!.inner.push(item);
    open.push({ depth, inner: item.inner });
  }
  return top;
}

/** Return the number that stands before an item of an ordered list, if one does. */
export function numberBefore(text: string, start: number): number | null {
  const found = /(\d{1,9})[.)]\s*$/.exec(text.slice(Math.max(0, start - 14), start));
  return found ? Number(found[1]) : null;
}
