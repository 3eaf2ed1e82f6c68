// An answer as Markdown with footnotes, to be pasted elsewhere.

import type { Answer, CheckedClaim, Citation } from "../api/types";
import { t } from "../i18n";

/** Return question, answer and a footnote for each number: the quote, the title and the address. */
export function markdownOf(question: string, { answer, citations }: Answer): string {
  const numbers = new Set(citations.map(({ index }) => index));
  const text = answer.replace(/\[(\d{1,3})\]/g, (marker, number: string) => (numbers.has(Number(number)) ? `[^${number}]` : marker));
  const notes = [...numbers].map((number) => noteOf(number, citations.filter(({ index }) => index === number)));
  return [`**${escaped(question)}**`, text, notes.join("\n")].filter(Boolean).join("\n\n") + "\n";
}

function noteOf(number: number, [first, ...others]: Citation[]): string {
  const quotes = [first!, ...others].map(({ quote }) => `“${escaped(quote)}”`).join(" … ");
  return `[^${number}]: ${quotes} — ${sourceOf(first!)}`;
}

/** Return a checked text: a line for each claim, with the page's words and their address. */
export function claimsMarkdown(summary: string, claims: CheckedClaim[]): string {
  const lines = claims.map(({ text, verdict, citation, page_says: says }) => {
    const page = citation ? ` — “${escaped(says ?? citation.quote)}” ${sourceOf(citation)}` : "";
    return `- **${t(`check.${verdict}`)}:** ${escaped(text)}${page}`;
  });
  return `${summary}\n\n${lines.join("\n")}\n`;
}

function sourceOf({ heading_path, title, url }: Citation): string {
  return `${escaped(heading_path.join(" → ") || title)}, <${url.replace(/[<>\s]/g, encodeURIComponent)}>`;
}

function escaped(text: string): string {
  return text.replace(/\s+/g, " ").replace(/[\\`*_[\]<>]/g, "\\$&");
}
