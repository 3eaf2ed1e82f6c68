// A quote and the text around it.

import type { Citation, Passage } from "../api/types";
import { offsetOf } from "./offsets";
import { shown, withoutBars } from "./plainTables";

const CHARS = 220;

export interface Surroundings {
  before: string;
  quote: string;
  after: string;
}

/** Return the quote with up to 220 characters on either side, cut between words; alone where they aren't known. Tables are
 * shown without their bars. */
export function surroundingsOf({ quote, start, end }: Citation, passage: Passage | null): Surroundings {
  const written = passage?.chunk.text ?? "";
  const [from, to] = [offsetOf(written, start), offsetOf(written, end)];
  if (!passage || from >= to) return { before: "", quote: shown(withoutBars(quote)), after: "" };
  const text = withoutBars(written);
  const before = (passage.before ? `${withoutBars(passage.before)}\n` : "") + text.slice(0, from);
  const after = text.slice(to) + (passage.after ? `\n${withoutBars(passage.after)}` : "");
  return { before: tail(shown(before)), quote: shown(text.slice(from, to)), after: head(shown(after)) };
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
