// Asking: a question goes to the server, what comes back goes into its turn.

import { effect } from "@preact/signals";
import { ApiError, send } from "../api/client";
import { eventsOf } from "../api/events";
import type { Answer, Outcome } from "../api/types";
import { announce } from "./announcement";
import { filters } from "./filters";
import { selection } from "./selection";
import { session } from "./session";
import { asking, historyBefore, newTurn, STEPS, turns, type Step, type Turn } from "./turns";

/** Parts of an answer as the server names them, by what they are to a reader; others don't change the step. */
const steps: Record<string, Step> = {
  total: "read",
  query: "read",
  embed: "search",
  search: "search",
  dense: "search",
  lexical: "search",
  hygiene: "search",
  sentence_evidence: "search",
  keyword_gate: "search",
  rerank: "search",
  versions: "search",
  sentences: "write",
  generate: "write",
  verify: "verify",
  render: "verify",
  places: "verify",
  receipt: "verify",
};

let request: AbortController | null = null;

/** Ask a question as the next turn. Does nothing while another one is answered. */
export function ask(question: string): void {
  if (!question.trim() || asking.peek()) return;
  const more = { filters: filters.peek(), selection: selection.peek() };
  const turn = newTurn(question.trim(), beginning(), more);
  turns.value = [...turns.peek(), turn];
  void answer(turn);
}

/** Ask the question of a turn again. */
export function retry(turn: Turn): void {
  if (asking.peek()) return;
  turn.receiptId.value = null;
  turn.state.value = beginning();
  void answer(turn);
}

/** Stop waiting for the answer. */
export function stop(): void {
  request?.abort();
}

/** Ask again what could not be asked because nobody was signed in, as soon as somebody is. */
export function askAgainAfterSignIn(): void {
  effect(() => {
    if (!session.value?.signed_in) return;
    const last = turns.peek().at(-1);
    const state = last?.state.peek();
    if (last && state?.phase === "failed" && state.error.status === 401) retry(last);
  });
}

function beginning(): Turn["state"]["value"] {
  return { phase: "asking", step: "read", sentences: [], outcome: null };
}

async function answer(turn: Turn): Promise<void> {
  const controller = new AbortController();
  request = controller;
  announce("asking.announced");
  try {
    await follow(turn, await send("/v1/ask", { method: "POST", body: bodyOf(turn), signal: controller.signal }));
  } catch (error) {
    if (controller.signal.aborted) turn.state.value = { phase: "stopped" };
    else turn.state.value = { phase: "failed", error: error instanceof ApiError ? error : new ApiError(0, "OFFLINE", "") };
    announce(controller.signal.aborted ? "stopped" : "failed.announced");
  }
  if (request === controller) request = null;
}

function bodyOf(turn: Turn): object {
  const history = historyBefore(turn);
  return {
    question: turn.question,
    mode: turn.selection ? "selected_text" : "corpus",
    ...(turn.selection ? { context: turn.selection.text } : {}),
    ...(Object.keys(turn.filters).length && !turn.selection ? { filters: turn.filters } : {}),
    ...(history.length ? { history } : {}),
    explain: true,
    stream: true,
  };
}

/** Put what the stream brings into the turn. Throws ApiError where it brings an error, or no answer. */
async function follow(turn: Turn, response: Response): Promise<void> {
  for await (const { name, data } of eventsOf(response)) {
    if (name === "progress") progress(turn, (data as { stage: string }).stage);
    else if (name === "sentence") sentence(turn, data as { text: string; outcome: Outcome });
    else if (name === "error") throw errorOf(data as { code: string; message: string; retry_after?: number });
    else if (name === "answer") return settle(turn, data as Answer);
  }
  throw new ApiError(0, "OFFLINE", "");
}

function progress(turn: Turn, stage: string): void {
  const state = turn.state.peek();
  const step = steps[stage];
  if (state.phase !== "asking" || !step || STEPS.indexOf(step) <= STEPS.indexOf(state.step)) return;
  turn.state.value = { ...state, step };
}

function sentence(turn: Turn, { text, outcome }: { text: string; outcome: Outcome }): void {
  const state = turn.state.peek();
  if (state.phase !== "asking") return;
  turn.state.value = { ...state, step: "verify", sentences: [...state.sentences, text], outcome };
}

function settle(turn: Turn, answer: Answer): void {
  turn.receiptId.value = answer.receipt_id;
  turn.state.value = { phase: "answered", answer };
  announce(`${answer.outcome}.announced`, { count: answer.citations.length });
}

function errorOf({ code, message, retry_after }: { code: string; message: string; retry_after?: number }): ApiError {
  const status = { TIMEOUT: 504, UNAVAILABLE: 503 }[code] ?? 500;
  return new ApiError(status, code, message, retry_after ?? null);
}
