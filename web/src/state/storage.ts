// What the browser keeps. It may refuse, or hold what others wrote: the page works without it.

const PREFIX = "citelock.";

/** Return what is kept under a name, or null where there is nothing, or nothing that can be read. */
export function kept(name: string): unknown {
  try {
    return JSON.parse(localStorage.getItem(PREFIX + name) ?? "null");
  } catch {
    return null;
  }
}

/** Keep a value; null forgets it. Returns whether the browser took it. */
export function keep(name: string, value: unknown): boolean {
  try {
    if (value === null) localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}
