// What screen readers are told besides what has the focus: seldom, and in one line.

import { signal } from "@preact/signals";
import { t } from "../i18n";
import type { Key } from "../i18n/en";

/** The line that is told when it changes. */
export const announcement = signal("");

/** Tell a line. */
export function announce(key: Key, values: Record<string, string | number> = {}): void {
  announcement.value = t(key, values);
}
