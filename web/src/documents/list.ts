// The documents of an editor, kept up to date by the server's events.

import { effect, signal } from "@preact/signals";
import { ApiError, load, send } from "../api/client";
import { eventsOf } from "../api/events";
import type { DocumentList, UploadedDocument } from "../api/types";
import { reader } from "../state/session";

const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 30_000;

/** The documents and what may be chosen; null until the server answered. */
export const list = signal<DocumentList | null>(null);

/** The status of the last failed look, null after one that succeeded. */
export const failure = signal<number | null>(null);

/** Whether changes arrive by themselves. */
export const isLive = signal(false);

// Another editor may see others.
effect(() => {
  void reader.value;
  list.value = null;
});

/** Read the list again. */
export async function readDocuments(): Promise<void> {
  const asker = reader.peek();
  try {
    const found = await load<DocumentList>("/v1/documents");
    if (reader.peek() !== asker) return;
    list.value = found;
    failure.value = null;
  } catch (error) {
    failure.value = error instanceof ApiError ? error.status : 0;
  }
}

/** Take a document away. Throws ApiError. */
export async function deleteDocument(id: string): Promise<void> {
  await send(`/v1/documents/${encodeURIComponent(id)}`, { method: "DELETE" });
  await readDocuments();
}

/** Follow the changes until stopped; a broken stream is opened again, later each time it fails. Returns the stop. */
export function followDocuments(): () => void {
  const stop = new AbortController();
  void follow(stop.signal);
  return () => stop.abort();
}

async function follow(stop: AbortSignal): Promise<void> {
  let wait = FIRST_WAIT_MS;
  while (!stop.aborted) {
    try {
      const response = await send("/v1/events", { signal: stop });
      isLive.value = true;
      await readDocuments();
      for await (const { name, data } of eventsOf(response)) {
        wait = FIRST_WAIT_MS;
        if (name === "document") changed(data as UploadedDocument | Gone);
      }
    } catch (error) {
      if (error instanceof ApiError && [401, 403, 404].includes(error.status)) return;
    }
    isLive.value = false;
    if (!stop.aborted) await pause(wait, stop);
    wait = Math.min(LONGEST_WAIT_MS, wait * 2);
  }
}

/** A document that is gone. */
type Gone = Omit<UploadedDocument, "status"> & { status: "deleted" };

function changed(document: UploadedDocument | Gone): void {
  const current = list.peek();
  if (!current) return;
  const others = current.documents.filter((each) => each.document_id !== document.document_id);
  if (document.status === "deleted") list.value = { ...current, documents: others };
  else if (others.length === current.documents.length) list.value = { ...current, documents: [document, ...others] };
  else
    list.value = {
      ...current,
      documents: current.documents.map((each) => (each.document_id === document.document_id ? document : each)),
    };
}

function pause(ms: number, stop: AbortSignal): Promise<void> {
  return new Promise((done) => {
    const timer = setTimeout(done, ms);
    stop.addEventListener("abort", () => {
      clearTimeout(timer);
      done();
    });
  });
}
