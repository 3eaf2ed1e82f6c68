// The text that another site hands over: /ask is opened by /embed.js, takes it, and goes on as the page itself.
//
// /ask is the one address whose opener may write to it. What came is kept for this tab, and the page is loaded again at /,
// where the opener has no hold of it. Nothing is asked by itself.

import { inTenant } from "../state/route";
import { selectText } from "../state/selection";

export const PATH = "/ask";
const KEY = "citelock.handover";
const MOST_CHARS = 50_000;
const MOST_TITLE = 300;
const MOST_URL = 2_000;
const WAIT_MS = 60_000;

interface Message {
  type: "citelock:selection";
  text: string;
  title: string;
  url: string;
}

/** Where the address is /ask, wait for the opener's text and then go to /; else take up what came before. */
export function takeHandover(): void {
  if (location.pathname === PATH) wait();
  else takeUp();
}

function wait(): void {
  const opener = window.opener as Window | null;
  if (!opener) return leave();
  const waiting = new AbortController();
  setTimeout(() => {
    if (!waiting.signal.aborted) leave();
  }, WAIT_MS);
  addEventListener(
    "message",
    (event) => {
      if (event.source !== opener || !isMessage(event.data, event.origin)) return;
      waiting.abort();
      const { text, title, url } = event.data;
      sessionStorage.setItem(KEY, JSON.stringify({ text, title, url, origin: event.origin }));
      leave();
    },
    { signal: waiting.signal },
  );
  // Says nothing but that somebody listens, so whoever opened this page may read it.
  opener.postMessage({ type: "citelock:ready" }, "*");
}

function leave(): void {
  window.opener = null;
  location.replace(inTenant("/"));
}

function takeUp(): void {
  const kept = sessionStorage.getItem(KEY);
  if (!kept) return;
  sessionStorage.removeItem(KEY);
  const { text, title, url, origin } = JSON.parse(kept) as Omit<Message, "type"> & { origin: string };
  selectText({ text, title: `${new URL(origin).host}: ${title || url}`, url, origin, pageId: null });
}

/** A text may only say that it is from a page of the site that sends it. */
function isMessage(data: unknown, origin: string): data is Message {
  if (typeof data !== "object" || data === null) return false;
  const { type, text, title, url } = data as Record<string, unknown>;
  const isWhole = type === "citelock:selection" && isText(text, MOST_CHARS) && isText(title, MOST_TITLE, 0) && isText(url, MOST_URL);
  return isWhole && /^https?:/i.test(origin) && URL.canParse(url as string) && new URL(url as string).origin === origin;
}

function isText(value: unknown, most: number, least = 1): boolean {
  return typeof value === "string" && value.trim().length >= least && value.length <= most;
}
