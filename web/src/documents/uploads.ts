// Files on their way to the server. XMLHttpRequest, because fetch does not say how much of a body was sent.

import { signal } from "@preact/signals";
import { withTenant } from "../api/client";
import { session, signedOut } from "../state/session";

export interface Upload {
  id: number;
  name: string;
  bytes: number;
  sent: number;
  state: "waiting" | "sending" | "sent" | "failed" | "stopped";
  /** Why it failed: the server's words, or empty where the server was not reached. */
  message: string;
}

export interface Wanted {
  file: File;
  /** What `readers` of the server's list was chosen; empty: the narrowest. */
  readers: string;
  /** The document that the file is a new version of. */
  replaces?: string;
}

const AT_ONCE = 2;
let lastId = 0;
const waiting: { id: number; wanted: Wanted }[] = [];
const requests = new Map<number, XMLHttpRequest>();

/** The uploads of this page, the newest first. */
export const uploads = signal<Upload[]>([]);

/** Send files, two at a time; `onSent` is called after each that the server took. */
export function sendFiles(files: Wanted[], onSent: () => void): void {
  for (const wanted of files) {
    const id = ++lastId;
    uploads.value = [{ id, name: wanted.file.name, bytes: wanted.file.size, sent: 0, state: "waiting", message: "" }, ...uploads.peek()];
    waiting.push({ id, wanted });
  }
  next(onSent);
}

/** Stop an upload that is under way or waits. */
export function stopUpload(id: number): void {
  const place = waiting.findIndex((each) => each.id === id);
  if (place >= 0) waiting.splice(place, 1);
  change(id, { state: "stopped" });
  requests.get(id)?.abort();
}

/** Forget uploads that are done, failed or stopped. */
export function forgetUploads(id?: number): void {
  uploads.value = uploads.peek().filter((upload) => (id === undefined ? isUnderWay(upload) : upload.id !== id));
}

/** Return whether an upload is still waiting or being sent. */
export function isUnderWay(upload: Upload): boolean {
  return upload.state === "waiting" || upload.state === "sending";
}

function next(onSent: () => void): void {
  while (requests.size < AT_ONCE) {
    const first = waiting.shift();
    if (!first) return;
    start(first.id, first.wanted, onSent);
  }
}

function start(id: number, { file, readers, replaces }: Wanted, onSent: () => void): void {
  const form = new FormData();
  if (readers) form.append("readers", readers === "everyone" ? readers : JSON.stringify([readers]));
  if (replaces) form.append("document_id", replaces);
  form.append("file", file);
  const request = new XMLHttpRequest();
  requests.set(id, request);
  request.upload.onprogress = (event) => change(id, { sent: Math.min(file.size, event.loaded) });
  request.onload = () => {
    if (request.status === 401) signedOut();
    const isTaken = request.status >= 200 && request.status < 300;
    change(id, isTaken ? { state: "sent", sent: file.size } : { state: "failed", message: messageOf(request.responseText) });
    if (isTaken) onSent();
  };
  request.onerror = () => change(id, { state: "failed", message: "" });
  request.onloadend = () => {
    requests.delete(id);
    next(onSent);
  };
  request.open("POST", withTenant("/v1/documents"));
  const csrf = session.peek()?.csrf;
  if (csrf) request.setRequestHeader("x-citelock-csrf", csrf);
  change(id, { state: "sending" });
  request.send(form);
}

function change(id: number, changes: Partial<Upload>): void {
  uploads.value = uploads.peek().map((upload) => (upload.id === id ? { ...upload, ...changes } : upload));
}

function messageOf(body: string): string {
  try {
    const { message } = JSON.parse(body) as { message?: unknown };
    return typeof message === "string" ? message : "";
  } catch {
    return "";
  }
}
