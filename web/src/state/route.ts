// Which view the address names.

import { computed, signal } from "@preact/signals";

export type Route =
  | { view: "ask" }
  | { view: "answer"; receiptId: string }
  | { view: "page"; pageId: string }
  | { view: "documents" }
  | { view: "status" };

const path = signal(location.pathname);

/** The view that the address names; an unknown one is the question's. */
export const route = computed<Route>(() => routeOf(path.value));

/** Show another view and put its address into the browser's history. */
export function go(to: string): void {
  if (to !== location.pathname) history.pushState(null, "", to);
  path.value = to;
}

addEventListener("popstate", () => {
  path.value = location.pathname;
});

function routeOf(pathname: string): Route {
  const [, first = "", second = ""] = pathname.split("/");
  if (first === "a" && second) return { view: "answer", receiptId: decoded(second) };
  if (first === "p" && second) return { view: "page", pageId: decoded(pathname.slice("/p/".length)) };
  if (first === "documents" || first === "status") return { view: first };
  return { view: "ask" };
}

/** Return a part of an address without its percent signs, or as it is where they are none. */
export function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
