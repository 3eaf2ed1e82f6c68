// Signing in and out.

import { effect } from "@preact/signals";
import { ApiError, load, send } from "../api/client";
import type { Session } from "../api/types";
import { filters } from "./filters";
import { namedTenant, nameTenant } from "./route";
import { foreignTenant, session } from "./session";
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
  features: { feedback: true, documents: false, notices: false, connect: false },
};

/** Ask the server who is signed in. Throws ApiError where it can't be reached. */
export async function loadSession(): Promise<void> {
  try {
    const found = await load<Session>("/v1/session");
    const { tenants, tenant } = found;
    session.value = found;
    if (tenants.length && !tenant && foreignTenant.value === null) await chooseTenant(tenantOf(tenants));
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

/** Choose a tenant, where the server knows several and asks nobody who they are; the address names it. */
export async function chooseTenant(tenant: string): Promise<void> {
  if (session.peek()?.tenant !== tenant) {
    newSession();
    closeViewer();
    filters.value = {};
  }
  keep("tenant", tenant);
  if (session.value) session.value = { ...session.value, tenant };
  nameTenant(tenant);
  const found = await load<Session>("/v1/session").catch(() => null); // what can be done differs between tenants
  if (found && session.peek()?.tenant === tenant) session.value = found;
}

/** Follow the address to another tenant, as the browser's buttons back and forth change it. */
export function followTenant(): void {
  effect(() => {
    const named = namedTenant.value;
    const { tenants = [], tenant = null } = session.peek() ?? {};
    if (named !== null && tenant !== null && named !== tenant && tenants.includes(named)) void chooseTenant(named);
  });
}

/** Return the tenant that the address names, else the one that was chosen last, else the first. */
function tenantOf(tenants: string[]): string {
  const wanted = [namedTenant.peek(), kept("tenant")];
  return wanted.flatMap((each) => tenants.filter((tenant) => tenant === each))[0] ?? tenants[0]!;
}
