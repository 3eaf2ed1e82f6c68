// The card over a citation's number: which one is shown, and where.

import { signal } from "@preact/signals";
import type { Citation } from "../api/types";

export interface Card {
  citation: Citation;
  anchor: HTMLElement;
}

const HOVER_MS = 120;
const LEAVE_MS = 180;
let timer = 0;

/** The card that is shown, or null. */
export const card = signal<Card | null>(null);

/** Show a card: at once, or for a pointer when it has rested. */
export function showCard(next: Card, atOnce: boolean): void {
  clearTimeout(timer);
  if (atOnce || card.peek()) card.value = next;
  else timer = setTimeout(() => (card.value = next), HOVER_MS);
}

/** Keep the card: the pointer went from the number to the card. */
export function holdCard(): void {
  clearTimeout(timer);
}

/** Hide the card: at once, or so late that the pointer can reach it. */
export function hideCard(atOnce: boolean): void {
  clearTimeout(timer);
  if (atOnce) card.value = null;
  else timer = setTimeout(() => (card.value = null), LEAVE_MS);
}
