// The head of the page: where one is, and what is chosen for all views.

import type { ComponentChildren } from "preact";
import { language, t } from "../i18n";
import { areKeysShown } from "../ask/keys";
import { scheme, type Scheme } from "../state/appearance";
import { go, inTenant, route } from "../state/route";
import { hasRole, session } from "../state/session";
import { newSession } from "../state/sessions";
import { chooseTenant, signOut } from "../state/signing";
import { turns } from "../state/turns";
import { Button } from "../ui/Button";
import { Menu, type MenuEntry } from "../ui/Menu";

/** Show the head; what a reader may not do isn't there. */
export function Header({ onHistory }: { onHistory: () => void }) {
  const isSignedIn = session.value?.signed_in ?? false;
  const isAsking = route.value.view === "ask";
  return (
    <header class="header">
      <Place to="/" isHere={false}>
        <img src="/icon.svg" alt="" width="28" height="28" />
        <span class="brand">Citelock</span>
      </Place>
      {isSignedIn && (
        <nav class="nav" aria-label={t("nav")}>
          <Place to="/" isHere={isAsking}>
            {t("nav.ask")}
          </Place>
          <Place to="/check" isHere={route.value.view === "check"}>
            {t("nav.check")}
          </Place>
          {session.value?.features.documents && hasRole("editor") && (
            <Place to="/documents" isHere={route.value.view === "documents"}>
              {t("nav.documents")}
            </Place>
          )}
          {hasRole("operator") && (
            <Place to="/status" isHere={route.value.view === "status"}>
              {t("nav.status")}
            </Place>
          )}
        </nav>
      )}
      <span class="gap" />
      {isSignedIn && <Tenants />}
      {isSignedIn && (
        <>
          {isAsking && turns.value.length > 0 && <Button kind="quiet" icon="plus" label={t("history.new")} onClick={newSession} />}
          <Button kind="quiet" icon="history" label={t("history")} aria-haspopup="dialog" onClick={onHistory} />
        </>
      )}
      <Menu label={t("menu")} icon="menu" items={entries()} />
    </header>
  );
}

/** Show which tenant is asked, and the others that may be; nothing where there is only one. */
function Tenants() {
  const { tenants = [], tenant } = session.value ?? {};
  if (tenants.length < 2) return null;
  return (
    <label class="tenants">
      <span>{t("tenant")}</span>
      <select class="input" value={tenant ?? ""} onChange={(event) => void chooseTenant(event.currentTarget.value)}>
        {!tenant && <option value="" disabled />}
        {tenants.map((each) => (
          <option key={each} value={each}>
            {each}
          </option>
        ))}
      </select>
    </label>
  );
}

function Place({ to, isHere, children }: { to: string; isHere: boolean; children: ComponentChildren }) {
  return (
    <a
      class={to === "/" && !isHere ? "place" : "place place-view"}
      href={inTenant(to)}
      aria-current={isHere ? "page" : undefined}
      onClick={(event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        go(to);
      }}
    >
      {children}
    </a>
  );
}

function entries(): MenuEntry[] {
  const current = session.value;
  const schemes: Scheme[] = ["system", "light", "dark"];
  return [
    ...schemes.map((each) => ({
      text: t(`scheme.${each}`),
      checked: scheme.value === each,
      act: () => (scheme.value = each),
    })),
    { text: "English", checked: language.value === "en", act: () => (language.value = "en") },
    { text: "Deutsch", checked: language.value === "de", act: () => (language.value = "de") },
    { text: t("keys"), icon: "keyboard", act: () => (areKeysShown.value = true) },
    ...(current?.signed_in && current.auth !== "loopback"
      ? ([
          { text: t("sign_out", { user: current.user ?? "" }), icon: "person", act: () => void signOut(false) },
          { text: t("sign_out.keep"), icon: "person", act: () => void signOut(true) },
        ] satisfies MenuEntry[])
      : []),
  ];
}
