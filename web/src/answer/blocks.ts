// The structure of an answer's text: paragraphs, lists, tables, code and quotes, as Markdown writes them.
// What isn't known is shown as it is written.

export interface Item {
  text: string;
  depth: number;
  checked: boolean | null;
}

export type TextBlock =
  | { kind: "paragraph" | "quote" | "heading"; text: string }
  | { kind: "list"; ordered: boolean; first: number; items: Item[] }
  | { kind: "table"; head: string[] | null; rows: string[][] }
  | { kind: "code"; text: string };

const LIST = /^( *)(?:[-*+]|(\d{1,9})[.)]) +(?:\[([ xX])\] +)?(.*)$/;
const RULE = /^[ :|-]+$/;
const MARKERS = /(?: {0,3}\[\d{1,3}\])+$/;
const MARKERS_CHARS = 200;
const FENCE = /^ {0,3}(`{3,}|~{3,})(.*)$/;

/** Return the blocks of a text, in order. */
export function blocksOf(text: string): TextBlock[] {
  const lines = text.split("\n");
  const blocks: TextBlock[] = [];
  for (let at = 0; at < lines.length; ) at = take(lines, at, blocks);
  return blocks;
}

/** Return the numbers that a text ends with, as `[1] [2]` names them. */
export function endingNumbers(text: string): number[] {
  return [...markersOf(text).matchAll(/\d+/g)].map(Number);
}

function markersOf(text: string): string {
  return MARKERS.exec(text.trimEnd().slice(-MARKERS_CHARS))?.[0] ?? "";
}

/** Add the block that begins at a line, and return the line behind it. */
function take(lines: string[], at: number, blocks: TextBlock[]): number {
  const line = lines[at]!;
  if (!line.trim()) return at + 1;
  const fence = FENCE.exec(line);
  if (fence) return takeCode(lines, at, fence[1]!, blocks);
  if (line.startsWith("|")) return takeTable(lines, at, blocks);
  if (LIST.test(line)) return takeList(lines, at, blocks);
  if (line.startsWith(">")) return takeLines(lines, at, "quote", blocks);
  const heading = /^#{1,6} +(.*)$/.exec(line);
  if (heading) blocks.push({ kind: "heading", text: heading[1]! });
  return heading ? at + 1 : takeLines(lines, at, "paragraph", blocks);
}

function takeCode(lines: string[], from: number, fence: string, blocks: TextBlock[]): number {
  let at = from + 1;
  while (at < lines.length && !lines[at]!.trimStart().startsWith(fence)) at += 1;
  blocks.push({ kind: "code", text: lines.slice(from + 1, at).join("\n") });
  const behind = lines[at]?.trimStart().slice(fence.length).trim();
  if (behind) blocks.push({ kind: "paragraph", text: behind });
  return at + 1;
}

function takeTable(lines: string[], from: number, blocks: TextBlock[]): number {
  let at = from;
  while (lines[at]?.startsWith("|")) at += 1;
  const found = lines.slice(from, at);
  const last = found.at(-1)!.trimEnd();
  const markers = markersOf(last);
  if (markers) found[found.length - 1] = last.slice(0, -markers.length);
  const hasHead = found.length > 1 && RULE.test(found[1]!);
  const rows = found.filter((line) => !RULE.test(line)).map(cellsOf);
  blocks.push({ kind: "table", head: hasHead ? rows[0]! : null, rows: hasHead ? rows.slice(1) : rows });
  if (markers) blocks.push({ kind: "paragraph", text: markers.trim() });
  return at;
}

function cellsOf(line: string): string[] {
  const cells = line.trim().replace(/^\|/, "").replace(/\|$/, "").split(/(?<!\\)\|/);
  return cells.map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function takeList(lines: string[], from: number, blocks: TextBlock[]): number {
  const first = LIST.exec(lines[from]!)!;
  const items: Item[] = [];
  let at = from;
  for (; at < lines.length; at++) {
    const line = lines[at]!;
    const item = LIST.exec(line);
    if (item && !item[1] && !item[2] !== !first[2]) break;
    if (item) items.push({ text: item[4]!, depth: Math.min(item[1]!.length >> 1, 4), checked: item[3] ? item[3] !== " " : null });
    else if (line.startsWith("  ") && line.trim()) items.at(-1)!.text += `\n${line.trim()}`;
    else break;
  }
  blocks.push({ kind: "list", ordered: Boolean(first[2]), first: Number(first[2] ?? 1), items });
  return at;
}

function takeLines(lines: string[], from: number, kind: "quote" | "paragraph", blocks: TextBlock[]): number {
  let at = from + 1;
  const goesOn = (line: string) => line.trim() && !line.startsWith("|") && !FENCE.test(line) && line.startsWith(">") === (kind === "quote");
  while (at < lines.length && goesOn(lines[at]!) && (kind === "quote" || !LIST.test(lines[at]!))) at += 1;
  const text = lines.slice(from, at).map((line) => (kind === "quote" ? line.replace(/^>+ ?/, "") : line));
  blocks.push({ kind, text: text.join("\n") });
  return at;
}
