// Keys that work everywhere on the page.

import { stop } from "../state/asking";
import { signal } from "@preact/signals";
import { card } from "../state/card";
import { asking } from "../state/turns";
import { closeViewer, place } from "../state/viewer";
import { QUESTION_ID } from "./Composer";

/** Whether the list of keys is shown. */
export const areKeysShown = signal(false);

/** Listen for "/" (question), "?" (list of keys) and Escape (close, else stop). */
export function listenForKeys(): void {
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.key === "Escape") leave(event);
    else if (!isWriting(event.target)) reach(event);
  });
}

function reach(event: KeyboardEvent): void {
  if (event.key === "?") areKeysShown.value = true;
  else if (event.key === "/") document.getElementById(QUESTION_ID)?.focus();
  else return;
  event.preventDefault();
}

function leave(event: KeyboardEvent): void {
  if (card.peek()) return;
  if (place.peek()) closeViewer();
  else if (asking.peek()) stop();
  else return;
  event.preventDefault();
}

function isWriting(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName));
}
