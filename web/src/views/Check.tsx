// The view /check: a text of the reader's own, each of its claims beside what the pages say.

import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { copy } from "../answer/Actions";
import { differences } from "../answer/differences";
import { claimsMarkdown } from "../answer/markdown";
import { Original } from "../answer/Sources";
import { ApiError, load } from "../api/client";
import type { CheckedClaim, CheckedText, ClaimVerdict } from "../api/types";
import { ChosenFilters, FilterButton } from "../ask/Filters";
import { known, t, type Key } from "../i18n";
import { announce, announcement } from "../state/announcement";
import { filters } from "../state/filters";
import { selection } from "../state/selection";
import { reader } from "../state/session";
import { openCitation } from "../state/viewer";
import { Button } from "../ui/Button";
import type { IconName } from "../ui/Icon";
import { Notice } from "../ui/Notice";
import "./views.css";

const icons: Record<ClaimVerdict, IconName> = { verbatim: "verified", otherwise: "caution", closest: "near", absent: "none" };
const kinds = { verbatim: "plain", otherwise: "danger", closest: "caution", absent: "plain" } as const;
const failures: Record<number, Key> = { 413: "check.too_long", 429: "error.busy", 504: "check.too_long" };

/** What is written: it outlives a sign-in of the same reader. */
const written = signal({ by: "", text: "" });

/** Show the field for a text, and what was found of its claims. */
export function Check() {
  const [state, setState] = useState<CheckedText | { failure: string } | "checking" | null>(null);
  const request = useRef<AbortController | null>(null);
  useEffect(() => () => request.current?.abort(), []);
  const text = written.value.by === reader.value ? written.value.text : "";

  function submit(event: Event): void {
    event.preventDefault(); // a click on "Stop" too: the button may be the form's own again before the browser acts on it
    if (state === "checking") return request.current?.abort();
    if (!text.trim()) return;
    const { signal } = (request.current = new AbortController());
    setState("checking");
    announce("check.checking");
    const body = { text, ...(selection.peek() ? {} : { filters: filters.peek() }) }; // they are only shown without one
    load<CheckedText>("/v1/check", { method: "POST", body, signal }).then(
      (checked) => {
        setState(checked);
        announcement.value = summaryOf(claimsOf(checked));
      },
      (error: unknown) => setState(signal.aborted ? null : { failure: told(error) }),
    );
  }

  return (
    <section class="view" aria-labelledby="check-title">
      <h1 id="check-title">{t("check.title")}</h1>
      <p>{t("check.intro")}</p>
      <form onSubmit={submit}>
        <ChosenFilters />
        <label class="field">
          {t("check.text")}
          <textarea class="input" dir="auto" rows={8} value={text} onInput={(event) => (written.value = { by: reader.peek(), text: event.currentTarget.value })} />
        </label>
        <div class="view-buttons">
          <Button type="submit" kind={state === "checking" ? "plain" : "primary"} icon={state === "checking" ? "stop" : "verified"}>
            {t(state === "checking" ? "ask.stop" : "nav.check")}
          </Button>
          <FilterButton />
        </div>
      </form>
      {state === "checking" && (
        <p class="verify-busy">
          <span class="spinner" aria-hidden="true" /> {t("check.checking")}
        </p>
      )}
      {state !== null && state !== "checking" && ("failure" in state ? <Notice kind="danger" alert>{state.failure}</Notice> : <Checked checked={state} />)}
    </section>
  );
}

function Checked({ checked }: { checked: CheckedText }) {
  const [message, setMessage] = useState<Key | null>(null);
  const claims = claimsOf(checked);
  const summary = summaryOf(claims);
  const tell = (key: Key) => {
    setMessage(key);
    announce(key);
  };
  return (
    <>
      <Notice>{summary}</Notice>
      {checked.flags.map((flag) => (
        <Notice key={flag} kind="caution">{known(`why.flag.${flag}`, flag)}</Notice>
      ))}
      <ol role="list" class="claims">
        {claims.map((claim, place) => (
          <li key={place}>
            <Claim claim={claim} />
          </li>
        ))}
      </ol>
      {claims.length > 0 && (
        <div class="row">
          <Button icon="copy" onClick={() => void copy(claimsMarkdown(summary, claims), "check.copied").then(tell)}>
            {t("copy")}
          </Button>
          {message && t(message)}
        </div>
      )}
    </>
  );
}

function Claim({ claim: { text, verdict, citation, page_says: says } }: { claim: CheckedClaim }) {
  const beside = (verdict !== "verbatim" && citation && (says ?? citation.quote)) || "";
  return (
    <Notice kind={kinds[verdict]} icon={icons[verdict]}>
      <p class={verdict === "otherwise" ? "view-state view-state-bad" : verdict === "verbatim" ? "view-state" : undefined}>{t(`check.${verdict}`)}</p>
      <dl class="facts">
        <Words of="check.text" text={text} other={beside || text} />
        {beside && <Words of="check.page" text={beside} other={text} />}
      </dl>
      {citation && (
        <p class="cited-facts">
          <button type="button" class="cited-open" dir="auto" onClick={() => openCitation(citation)}>
            {citation.heading_path.join(" → ") || citation.title}
          </button>
          {t("cite.version", { version: citation.page_version })} <Original citation={citation} />
        </p>
      )}
    </Notice>
  );
}

function Words({ of, text, other }: { of: Key; text: string; other: string }) {
  return (
    <div>
      <dt>{t(of)}</dt>
      <dd dir="auto">{differences(text, other).map(([piece, differs], place) => (differs ? <mark key={place}>{piece}</mark> : piece))}</dd>
    </div>
  );
}

function claimsOf({ claims }: CheckedText): CheckedClaim[] {
  return claims.filter((claim) => claim.verdict !== "no_claim");
}

function summaryOf(claims: CheckedClaim[]): string {
  const counts = Object.keys(icons).map((each) => [each as ClaimVerdict, claims.filter(({ verdict }) => verdict === each).length] as const);
  const told = counts.flatMap(([verdict, count]) => (count ? `${t(`check.${verdict}`)}: ${count}` : []));
  return claims.length ? [t("check.claims", { count: claims.length }), ...told].join(" · ") : t("check.none");
}

function told(error: unknown): string {
  const { status, message } = error instanceof ApiError ? error : { status: 0, message: "" };
  return failures[status] ? t(failures[status]) : `${t("check.failed")} ${message}`;
}
