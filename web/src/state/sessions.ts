// Earlier sessions, kept by the browser for each reader: questions and receipts, never an answer.

import { computed, effect, signal } from "@preact/signals";
import { ApiError } from "../api/client";
import { earlierAnswer } from "../api/receipts";
import { stop } from "./asking";
import { session } from "./session";
import { keep, kept } from "./storage";
import { newTurn, turns, type Turn } from "./turns";
import { closeViewer } from "./viewer";

export interface KeptSession {
  id: string;
  title: string;
  at: string;
}

interface KeptTurn {
  question: string;
  receiptId: string;
}

const MOST_SESSIONS = 50;
const TITLE_CHARS = 80;

/** The session that is open; null until it has a turn. */
export const currentId = signal<string | null>(null);

const version = signal(0);
const shelf = computed(() => `sessions.${session.value?.tenant ?? ""}.${session.value?.user ?? ""}`);

/** The kept sessions of this reader, newest first. */
export const keptSessions = computed<KeptSession[]>(() => {
  void version.value;
  const value = kept(shelf.value);
  return Array.isArray(value) ? value.filter(isSession) : [];
});

/** Keep the open session's questions and receipts as they come; forget what is open where another reader comes. */
export function keepSessions(): void {
  addEventListener("storage", () => (version.value += 1));
  let reader = shelf.peek();
  effect(() => {
    const signedIn = session.value?.signed_in;
    if (!signedIn || shelf.value === reader) return;
    if (!reader.endsWith(".")) {
      newSession();
      closeViewer();
    }
    reader = shelf.value;
  });
  effect(() => {
    const list = turns.value.flatMap(({ question, receiptId }): KeptTurn[] =>
      receiptId.value ? [{ question, receiptId: receiptId.value }] : [],
    );
    if (list.length && session.peek()?.signed_in) save(list);
  });
}

/** Begin an empty session; nothing is waited for any more. */
export function newSession(): void {
  stop();
  currentId.value = null;
  turns.value = [];
}

/** Open a kept session; its answers are read again when they come into view. */
export function openSession(id: string): void {
  stop();
  const list = kept(`${shelf.peek()}.${id}`);
  currentId.value = id;
  turns.value = (Array.isArray(list) ? list.filter(isTurn) : []).map(({ question, receiptId }) => {
    const turn = newTurn(question, { phase: "stored" });
    turn.receiptId.value = receiptId;
    return turn;
  });
}

/** Read the answer of a stored turn. */
export async function readAgain(turn: Turn): Promise<void> {
  const id = turn.receiptId.peek();
  if (!id || turn.state.peek().phase !== "stored") return;
  try {
    const answer = await earlierAnswer(id);
    turn.state.value = answer ? { phase: "answered", answer } : { phase: "gone" };
  } catch (error) {
    turn.state.value = { phase: "failed", error: error instanceof ApiError ? error : new ApiError(0, "OFFLINE", "") };
  }
}

/** Give a kept session another title. */
export function rename(id: string, title: string): void {
  write(keptSessions.peek().map((each) => (each.id === id ? { ...each, title: title.slice(0, TITLE_CHARS) } : each)));
}

/** Forget a kept session. */
export function remove(id: string): void {
  keep(`${shelf.peek()}.${id}`, null);
  write(keptSessions.peek().filter((each) => each.id !== id));
  if (currentId.peek() === id) newSession();
}

/** Forget all kept sessions of this reader. */
export function removeAll(): void {
  for (const { id } of keptSessions.peek()) keep(`${shelf.peek()}.${id}`, null);
  keep(shelf.peek(), null);
  version.value += 1;
  newSession();
}

function save(list: KeptTurn[]): void {
  const sessions = keptSessions.peek();
  const id = currentId.peek() ?? crypto.randomUUID?.() ?? String(Date.now());
  if (JSON.stringify(kept(`${shelf.peek()}.${id}`)) === JSON.stringify(list)) return;
  const title = sessions.find((each) => each.id === id)?.title ?? list[0]!.question.slice(0, TITLE_CHARS);
  currentId.value = id;
  const others = sessions.filter((each) => each.id !== id);
  for (const { id: old } of others.slice(MOST_SESSIONS - 1)) keep(`${shelf.peek()}.${old}`, null);
  if (keep(`${shelf.peek()}.${id}`, list))
    write([{ id, title, at: new Date().toISOString() }, ...others.slice(0, MOST_SESSIONS - 1)]);
}

function write(sessions: KeptSession[]): void {
  keep(shelf.peek(), sessions.length ? sessions : null);
  version.value += 1;
}

function isSession(value: unknown): value is KeptSession {
  const { id, title, at } = (value ?? {}) as Record<string, unknown>;
  return typeof id === "string" && typeof title === "string" && typeof at === "string";
}

function isTurn(value: unknown): value is KeptTurn {
  const { question, receiptId } = (value ?? {}) as Record<string, unknown>;
  return typeof question === "string" && typeof receiptId === "string";
}
