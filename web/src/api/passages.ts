// Passages with what stands around them, asked for once.

import { effect } from "@preact/signals";
import { session } from "../state/session";
import { ApiError, load } from "./client";
import type { Passage } from "./types";

const MOST = 300;
const passages = new Map<string, Promise<Passage | null>>();

/** Return a passage, or null where it can't be had. */
export function passageOf(chunkId: string): Promise<Passage | null> {
  const known = passages.get(chunkId);
  if (known) return known;
  const asked = load<Passage>(`/v1/passages/${encodeURIComponent(chunkId)}`).catch((error: unknown) => {
    if (!(error instanceof ApiError && error.status === 404)) passages.delete(chunkId);
    return null;
  });
  passages.set(chunkId, asked);
  if (passages.size > MOST) passages.delete(passages.keys().next().value!);
  return asked;
}

/** Forget the passages whenever another reader sits here. */
export function forgetPassagesOfOthers(): void {
  effect(() => {
    void session.value?.user;
    void session.value?.tenant;
    passages.clear();
  });
}
