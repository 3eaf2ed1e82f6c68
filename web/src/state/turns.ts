// The questions of this session and what became of them.

import { computed, signal, type Signal } from "@preact/signals";
import type { ApiError } from "../api/client";
import type { Answer, Filters, Outcome, Turn as Message } from "../api/types";
import type { Selection } from "./selection";

export type TurnState =
  | { phase: "asking"; step: Step; sentences: string[]; outcome: Outcome | null }
  | { phase: "answered"; answer: Answer }
  | { phase: "stopped" }
  | { phase: "failed"; error: ApiError }
  /** An earlier answer: only its receipt is known. */
  | { phase: "stored" }
  /** An earlier answer that the reader may not read, or that is no longer kept. */
  | { phase: "gone" };

/** What the server does for a question, in this order. */
export const STEPS = ["read", "search", "write", "verify"] as const;
export type Step = (typeof STEPS)[number];

export interface Turn {
  id: number;
  question: string;
  filters: Filters;
  selection: Selection | null;
  receiptId: Signal<string | null>;
  state: Signal<TurnState>;
}

const HISTORY_TURNS = 3;
const HISTORY_CHARS = 4000;
let lastId = 0;

/** The turns of the session, oldest first. */
export const turns = signal<Turn[]>([]);

/** The turn that is being answered, or null. */
export const asking = computed(() => turns.value.find((turn) => turn.state.value.phase === "asking") ?? null);

/** Return a turn whose answer isn't known yet. */
export function newTurn(question: string, state: TurnState, more: Partial<Pick<Turn, "filters" | "selection">> = {}): Turn {
  const { filters = {}, selection = null } = more;
  return { id: ++lastId, question, filters, selection, receiptId: signal(null), state: signal(state) };
}

/** Return the answered turns before a turn as the server wants them: the last three, oldest first. */
export function historyBefore(turn: Turn): Message[] {
  const earlier = turns.value.slice(0, turns.value.indexOf(turn));
  const messages = earlier.flatMap(({ question, state }): Message[] => {
    const now = state.peek();
    if (now.phase !== "answered") return [];
    const content = now.answer.answer.slice(0, HISTORY_CHARS);
    return [{ role: "user", content: question }, { role: "assistant", content }];
  });
  return messages.slice(-2 * HISTORY_TURNS);
}
