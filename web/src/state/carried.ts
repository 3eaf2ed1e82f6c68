// A question that outlives a sign-in at a provider, which leaves the page. The tab keeps it, for the same reader alone.

import { effect } from "@preact/signals";
import { ask } from "./asking";
import { session } from "./session";
import { turns } from "./turns";

const NAME = "citelock.carried";
let reader: string | null = null;

/** Remember who was signed in last: only he gets his question back. */
export function rememberReader(): void {
  effect(() => {
    if (session.value?.signed_in) reader = session.value.user;
  });
}

/** Keep the question that could not be asked because nobody was signed in. */
export function carryQuestion(): void {
  const last = turns.peek().at(-1);
  const state = last?.state.peek();
  if (!last || state?.phase !== "failed" || state.error.status !== 401) return;
  try {
    sessionStorage.setItem(NAME, JSON.stringify({ reader, question: last.question }));
  } catch {
    // The browser keeps nothing: the question has to be typed again.
  }
}

/** Ask the question that was kept, if its reader has come back; it is forgotten in any case. */
export function askCarried(): void {
  try {
    const kept = JSON.parse(sessionStorage.getItem(NAME) ?? "null") as { reader: unknown; question: unknown } | null;
    sessionStorage.removeItem(NAME);
    const { signed_in, user } = session.peek() ?? {};
    if (kept && signed_in && user && kept.reader === user && typeof kept.question === "string") ask(kept.question);
  } catch {
    // What is there isn't ours.
  }
}
