// Dates, numbers and sizes in the page's language.

import { language } from "../i18n";

/** Return a day such as "19 Jan 2026"; empty where there is none. */
export function dayOf(iso: string | null | undefined): string {
  return formatted(iso, { dateStyle: "medium" });
}

/** Return a day and a time; empty where there is none. */
export function timeOf(iso: string | null | undefined): string {
  return formatted(iso, { dateStyle: "medium", timeStyle: "short" });
}

/** Return a number with the language's separators. */
export function numberOf(value: number): string {
  return new Intl.NumberFormat(language.value).format(value);
}

/** Return a size in kB or MB (of 1,000). */
export function sizeOf(bytes: number): string {
  const [unit, divisor] = bytes < 1e6 ? (["kilobyte", 1e3] as const) : (["megabyte", 1e6] as const);
  return new Intl.NumberFormat(language.value, { style: "unit", unit, maximumSignificantDigits: 3 }).format(bytes / divisor);
}

function formatted(iso: string | null | undefined, options: Intl.DateTimeFormatOptions): string {
  if (!iso) return "";
  const date = new Date(iso);
  return Number.isNaN(date.getTime()) ? "" : new Intl.DateTimeFormat(language.value, options).format(date);
}

/** Return a page as it is told: its number, and in brackets what the document calls it where that is something else. */
export function pageTold(page: number | null | undefined, label: string | null | undefined): string {
  if (!page) return "";
  return label && label !== String(page) ? `${page} (${label})` : String(page);
}
