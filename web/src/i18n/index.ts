// The page's language.

import { signal } from "@preact/signals";
import { kept } from "../state/storage";
import { de } from "./de";
import { en } from "./en";
import { viewerDe } from "./viewer.de";
import { viewerEn } from "./viewer.en";

type ManyOf<K> = K extends `${infer Many}.one` ? Many & Key : never;

/** Keys that have another text for one. */
export type PluralKey = ManyOf<Key>;

export type Language = "en" | "de";
export type Key = keyof typeof en | keyof typeof viewerEn;

const words: Record<Language, Record<Key, string>> = { en: { ...en, ...viewerEn }, de: { ...de, ...viewerDe } };

/** The language of the page: chosen, else the browser's, else English. */
export const language = signal<Language>(preferred());

/** Return a text of the page, with `{name}` replaced by the given values. */
export function t(key: Key, values: Record<string, string | number> = {}): string {
  return words[language.value][key].replace(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole));
}

/** Return a text by a key that the server named, or the server's own where there is no such key. */
export function known(key: string, otherwise: string): string {
  return Object.hasOwn(words.en, key) ? t(key as Key) : otherwise;
}

/** Return a text for a number: the key with `.one` where the number is one. */
export function plural(key: PluralKey, count: number, values: Record<string, string | number> = {}): string {
  return t(count === 1 ? `${key}.one` : key, { count, ...values });
}

/** Return a time as a date in the page's language, or an empty text where it is none. */
export function dated(iso: string | null | undefined): string {
  const time = new Date(iso ?? "");
  return Number.isNaN(time.getTime()) ? "" : new Intl.DateTimeFormat(language.value, { dateStyle: "medium" }).format(time);
}

function preferred(): Language {
  const first = kept("language") ?? navigator.language.slice(0, 2);
  return first === "de" ? "de" : "en";
}
