// Signing in and out.

import { ApiError, load, send } from "../api/client";
import type { Session } from "../api/types";
import { session } from "./session";
import { newSession, removeAll } from "./sessions";
import { keep, kept } from "./storage";
import { closeViewer } from "./viewer";

/** What a server without sessions is: everybody on its own machine is signed in. */
const open: Session = {
  signed_in: true,
  auth: "loopback",
  oidc: null,
  user: null,
  tenant: null,
  tenants: [],
  roles: [],
  csrf: null,
  expires_at: null,
  limits: { question_chars: 4000, selection_chars: 50000 },
  features: { feedback: true, documents: false },
};

/** Ask the server who is signed in. Throws ApiError where it can't be reached. */
export async function loadSession(): Promise<void> {
  try {
    const found = await load<Session>("/v1/session");
    const tenants = found.tenants;
    session.value = tenants.length && !found.tenant ? { ...found, tenant: tenantOf(tenants) } : found;
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) throw error;
    session.value = open;
  }
}

/** Sign in with a token, which is kept nowhere on the page. Throws ApiError where it isn't known. */
export async function signIn(token: string): Promise<void> {
  session.value = await load<Session>("/v1/session", { method: "POST", body: { token } });
}

/** Sign out; the reader's sessions are forgotten unless he keeps them. */
export async function signOut(isKept: boolean): Promise<void> {
  if (!isKept) removeAll();
  newSession();
  closeViewer();
  await send("/v1/session", { method: "DELETE" }).catch(() => undefined);
  await loadSession();
}

/** Choose a tenant, where the server knows several and asks nobody who they are. */
export function chooseTenant(tenant: string): void {
  newSession();
  keep("tenant", tenant);
  if (session.value) session.value = { ...session.value, tenant };
}

/** Return the tenant that was chosen last, or the first. */
function tenantOf(tenants: string[]): string {
  const last = kept("tenant");
  return tenants.find((tenant) => tenant === last) ?? tenants[0]!;
}
