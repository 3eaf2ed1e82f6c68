// An answer as Markdown with footnotes, to be pasted elsewhere.

import type { Answer, Citation } from "../api/types";

/** Return question, answer and a footnote for each number: the quote, the title and the address. */
export function markdownOf(question: string, { answer, citations }: Answer): string {
  const numbers = new Set(citations.map(({ index }) => index));
  const text = answer.replace(/\[(\d{1,3})\]/g, (marker, number: string) => (numbers.has(Number(number)) ? `[^${number}]` : marker));
  const notes = [...numbers].map((number) => noteOf(number, citations.filter(({ index }) => index === number)));
  return [`**${escaped(question)}**`, text, notes.join("\n")].filter(Boolean).join("\n\n") + "\n";
}

function noteOf(number: number, [first, ...others]: Citation[]): string {
  const { heading_path, title, url } = first!;
  const quotes = [first!, ...others].map(({ quote }) => `“${escaped(quote)}”`).join(" … ");
  return `[^${number}]: ${quotes} — ${escaped(heading_path.join(" → ") || title)}, <${url.replace(/[<>\s]/g, encodeURIComponent)}>`;
}

function escaped(text: string): string {
  return text.replace(/\s+/g, " ").replace(/[\\`*_[\]<>]/g, "\\$&");
}
