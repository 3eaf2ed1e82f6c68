// The view of an address whose tenant is not there, or not for this reader: nothing of another one is shown in its place.

import { t } from "../i18n";
import { session } from "../state/session";
import { chooseTenant } from "../state/signing";
import { Button } from "../ui/Button";
import { Notice } from "../ui/Notice";
import "./views.css";

/** Say so, and offer the tenants that can be asked. */
export function ForeignTenant({ name }: { name: string }) {
  const { tenants = [], tenant } = session.value ?? {};
  const offered = tenants.length ? tenants : tenant === null || tenant === undefined ? [] : [tenant];
  return (
    <section class="view" aria-labelledby="tenant-title">
      <h1 id="tenant-title">{t("tenant.unknown")}</h1>
      <Notice kind="caution" alert>
        <p dir="auto">{t("tenant.unknown.text", { name })}</p>
        <div class="row">
          {offered.map((each) => (
            <Button key={each} onClick={() => void chooseTenant(each)}>
              <bdi>{t("tenant.choose", { name: each })}</bdi>
            </Button>
          ))}
        </div>
      </Notice>
    </section>
  );
}
