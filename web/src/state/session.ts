// Who is signed in, as the server says.

import { computed, signal } from "@preact/signals";
import type { Session } from "../api/types";
import { namedTenant } from "./route";

/** The session; null until the server was asked. */
export const session = signal<Session | null>(null);

/** Who reads: changes when another reader signs in, or nobody is signed in any more. */
export const reader = computed(() => {
  const { signed_in, user, tenant } = session.value ?? {};
  return JSON.stringify([signed_in, user, tenant]);
});

/** The tenant that the address names and the reader may not ask; null where there is none. */
export const foreignTenant = computed(() => {
  const { signed_in, tenant = null, tenants = [] } = session.value ?? {};
  const named = namedTenant.value;
  if (!signed_in || named === null || (tenant === null && !tenants.length)) return null;
  return named === tenant || tenants.includes(named) ? null : named;
});

/** Note that the server no longer knows the session. */
export function signedOut(): void {
  const current = session.value;
  if (current?.signed_in) session.value = { ...current, signed_in: false, user: null, csrf: null };
}

/** Return whether the caller has a role. */
export function hasRole(role: string): boolean {
  return session.value?.signed_in === true && session.value.roles.includes(role);
}
