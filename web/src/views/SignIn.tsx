// Signing in.

import { useState } from "preact/hooks";
import { ApiError } from "../api/client";
import { t } from "../i18n";
import { carryQuestion } from "../state/carried";
import { session } from "../state/session";
import { signIn } from "../state/signing";
import { turns } from "../state/turns";
import { Button } from "../ui/Button";
import { Notice } from "../ui/Notice";
import { useFocus } from "../ui/useFocus";

/** Show how to sign in: at the provider, or with a token. */
export function SignIn() {
  const { oidc = null } = session.value ?? {};
  const isExpired = turns.value.length > 0;
  return (
    <section class="sign-in" aria-labelledby="sign-in">
      <h1 id="sign-in">{t(isExpired ? "sign_in.again" : "sign_in")}</h1>
      <p class="faint">{t(isExpired ? "sign_in.again.text" : "sign_in.text")}</p>
      {oidc ? (
        <a class="button button-primary" onClick={carryQuestion} href={`/v1/session/oidc?return=${encodeURIComponent(location.pathname)}`}>
          {oidc.label}
        </a>
      ) : (
        <TokenForm />
      )}
    </section>
  );
}

function TokenForm() {
  const field = useFocus<HTMLInputElement>();
  const [error, setError] = useState<ApiError | null>(null);

  async function submit(event: Event): Promise<void> {
    event.preventDefault();
    try {
      await signIn(field.current!.value.trim());
    } catch (failure) {
      if (!(failure instanceof ApiError)) throw failure;
      setError(failure);
      field.current?.focus();
    }
  }

  return (
    <form onSubmit={(event) => void submit(event)}>
      <label class="field">
        {t("sign_in.token")}
        <input ref={field} class="input" type="password" autocomplete="off" spellcheck={false} required dir="ltr" />
      </label>
      {error && (
        <Notice kind="danger" alert>
          {t(error.status === 401 ? "sign_in.unknown" : error.status === 429 ? "error.busy" : "error.offline")}
        </Notice>
      )}
      <Button type="submit" kind="primary">
        {t("sign_in.submit")}
      </Button>
    </form>
  );
}
