// Which view the address names.

import { computed, signal } from "@preact/signals";

export type Route =
  | { view: "ask" }
  | { view: "answer"; receiptId: string }
  | { view: "page"; pageId: string }
  | { view: "check" }
  | { view: "documents" }
  | { view: "status" };

const path = signal(location.pathname);

/** The tenant that the address names, where it names one: `?tenant=NAME`. */
export const namedTenant = signal(tenantIn(location.search));

/** The view that the address names; an unknown one is the question's. */
export const route = computed<Route>(() => routeOf(path.value));

/** Show another view and put its address into the browser's history. */
export function go(to: string): void {
  if (to !== location.pathname) history.pushState(null, "", inTenant(to));
  path.value = to;
}

/** Return an address of this page with the tenant that the current one names. */
export function inTenant(address: string): string {
  const [place = "", anchor] = address.split("#");
  const named = namedTenant.value === null ? "" : `?tenant=${encodeURIComponent(namedTenant.value)}`;
  return `${place}${named}${anchor === undefined ? "" : `#${anchor}`}`;
}

/** Name a tenant in the address, in place of the one before. */
export function nameTenant(tenant: string): void {
  namedTenant.value = tenant;
  history.replaceState(null, "", inTenant(location.pathname + location.hash));
}

addEventListener("popstate", () => {
  path.value = location.pathname;
  namedTenant.value = tenantIn(location.search);
});

function tenantIn(search: string): string | null {
  return new URLSearchParams(search).get("tenant");
}

function routeOf(pathname: string): Route {
  const [, first = "", second = ""] = pathname.split("/");
  if (first === "a" && second) return { view: "answer", receiptId: decoded(second) };
  if (first === "p" && second) return { view: "page", pageId: decoded(pathname.slice("/p/".length)) };
  if (first === "check" || first === "documents" || first === "status") return { view: first };
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
