// What questions are narrowed to.

import { signal } from "@preact/signals";
import type { FilterChoices, Filters } from "../api/types";
import { load } from "../api/client";

export type FilterKey = keyof Filters;

/** The filters in force: a key without values isn't there. */
export const filters = signal<Filters>({});

/** What the reader can choose from; null where the server doesn't say. */
export const choices = signal<FilterChoices | null>(null);

/** Ask the server what there is to choose from. */
export async function loadChoices(): Promise<void> {
  choices.value = await load<FilterChoices>("/v1/filters").catch(() => null);
}

/** Add a value to a filter, or take it away. */
export function toggle(key: FilterKey, value: string): void {
  const { [key]: values = [], ...others } = filters.peek();
  const next = values.includes(value) ? values.filter((each) => each !== value) : [...values, value];
  filters.value = next.length ? { ...others, [key]: next } : others;
}
