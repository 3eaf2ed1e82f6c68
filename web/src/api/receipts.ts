// Answers as their receipts keep them.

import type { Answer, Receipt } from "./types";
import { ApiError, load } from "./client";

/** Return an earlier answer, or null where the reader may not read it, or it is no longer kept. */
export async function earlierAnswer(receiptId: string): Promise<Answer | null> {
  try {
    return answerOf(receiptId, await load<Receipt>(`/v1/receipts/${encodeURIComponent(receiptId)}`));
  } catch (error) {
    if (error instanceof ApiError && (error.status === 404 || error.status === 403)) return null;
    throw error;
  }
}

/** Return what a receipt holds as an answer; it doesn't hold why there was none. */
export function answerOf(receiptId: string, receipt: Receipt): Answer {
  const { status, outcome, confidence, threshold, answer, citations, generation, generator, timings_ms, flags } = receipt;
  const unknown = { clarification: null, refusal: null, reranker: "" };
  const known = { status, outcome, confidence, threshold, answer, citations, generation, generator, timings_ms, flags };
  return { ...known, ...unknown, receipt_id: receiptId };
}
