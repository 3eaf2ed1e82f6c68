// The page's language, direction and colours.

import { effect, signal } from "@preact/signals";
import { language } from "../i18n";
import { keep, kept } from "./storage";

export type Scheme = "system" | "light" | "dark";

/** The chosen colours. */
export const scheme = signal<Scheme>(schemeOf(kept("scheme")));

/** Languages that are written from right to left have "rtl". */
const directions: Record<string, "ltr" | "rtl"> = { en: "ltr", de: "ltr" };

/** Set language, direction and colours on the document, now and whenever they change. */
export function applyAppearance(): void {
  effect(() => {
    document.documentElement.lang = language.value;
    document.documentElement.dir = directions[language.value] ?? "ltr";
    keep("language", language.value);
  });
  effect(() => {
    if (scheme.value === "system") delete document.documentElement.dataset.scheme;
    else document.documentElement.dataset.scheme = scheme.value;
    keep("scheme", scheme.value);
  });
}

function schemeOf(value: unknown): Scheme {
  return value === "light" || value === "dark" ? value : "system";
}
