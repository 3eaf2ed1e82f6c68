// A quote and the text around it.

import type { Citation, Passage } from "../api/types";
import { offsetOf } from "./offsets";

const CHARS = 220;

export interface Surroundings {
  before: string;
  quote: string;
  after: string;
}

/** Return the quote with up to 220 characters on either side, cut between words; alone where they aren't known. */
export function surroundingsOf({ quote, start, end }: Citation, passage: Passage | null): Surroundings {
  const text = passage?.chunk.text ?? "";
  const [from, to] = [offsetOf(text, start), offsetOf(text, end)];
  if (!passage || from >= to) return { before: "", quote, after: "" };
  const before = (passage.before ? `${passage.before}\n` : "") + text.slice(0, from);
  const after = text.slice(to) + (passage.after ? `\n${passage.after}` : "");
  return { before: tail(before), quote: text.slice(from, to), after: head(after) };
}

function head(text: string): string {
  if (text.length <= CHARS) return text;
  const cut = text.lastIndexOf(" ", CHARS);
  return `${text.slice(0, cut > 0 ? cut : CHARS)} …`;
}

function tail(text: string): string {
  if (text.length <= CHARS) return text;
  const cut = text.indexOf(" ", text.length - CHARS);
  return `… ${text.slice(cut >= 0 ? cut + 1 : -CHARS)}`;
}
