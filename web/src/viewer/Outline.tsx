// A page's headings, to go to.

import type { SourcePage } from "../api/types";
import { t } from "../i18n";
import { bringIntoView } from "./bringIntoView";
import { isTitle } from "./pieces";

interface Entry {
  place: number;
  heading: string;
  inner: Entry[];
}

/** Show the tree of a page's headings; nothing where there are fewer than two. */
export function Outline({ page, open }: { page: SourcePage; open: boolean }) {
  const tree = treeOf(page);
  if (count(tree) < 2) return null;
  return (
    <details class="viewer-outline" open={open}>
      <summary>{t("viewer.outline")}</summary>
      <nav aria-label={t("viewer.outline")}>
        <Level entries={tree} />
      </nav>
    </details>
  );
}

function Level({ entries }: { entries: Entry[] }) {
  return (
    <ul role="list">
      {entries.map((entry) => (
        <li key={entry.place}>
          <a
            href={`#piece-s${entry.place}`}
            dir="auto"
            onClick={(event) => {
              event.preventDefault();
              goTo(entry.place);
            }}
          >
            {entry.heading}
          </a>
          {entry.inner.length > 0 && <Level entries={entry.inner} />}
        </li>
      ))}
    </ul>
  );
}

function goTo(place: number): void {
  const piece = document.getElementById(`piece-s${place}`);
  const heading = piece?.querySelector<HTMLElement>(".viewer-heading");
  heading?.focus({ preventScroll: true });
  if (heading) bringIntoView(heading);
}

function treeOf(page: SourcePage): Entry[] {
  const top: Entry[] = [];
  const open: { depth: number; inner: Entry[] }[] = [{ depth: 0, inner: top }];
  page.sections.forEach((section, place) => {
    if (isTitle(section, page) || !section.heading) return;
    const depth = section.heading_path.length;
    while (open.length > 1 && open[open.length - 1]!.depth >= depth) open.pop();
    const entry: Entry = { place, heading: section.heading, inner: [] };
    open[open.length - 1]!.inner.push(entry);
    open.push({ depth, inner: entry.inner });
  });
  return top;
}

function count(entries: Entry[]): number {
  return entries.reduce((sum, entry) => sum + 1 + count(entry.inner), 0);
}
