// "Verify": the server checks a receipt once more, and shows each check.

import { useEffect, useMemo, useState } from "preact/hooks";
import { ApiError, load } from "../api/client";
import type { Check, Proof } from "../api/types";
import { t, type Key } from "../i18n";
import { viewerEn } from "../i18n/viewer.en";
import { Button } from "../ui/Button";
import { Icon } from "../ui/Icon";
import { Notice } from "../ui/Notice";
import "./views.css";

type State = { phase: "checking" } | { phase: "failed"; status: number } | { phase: "checked"; proof: Proof };

const STEP_MS = 70;

/** Have a receipt checked, and show the checks one after the other. */
export function Verify({ receiptId }: { receiptId: string }) {
  const [state, setState] = useState<State>({ phase: "checking" });
  const [round, setRound] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    setState({ phase: "checking" });
    load<Proof>(`/v1/receipts/${encodeURIComponent(receiptId)}/verify`, { method: "POST", signal: stop.signal }).then(
      (proof) => setState({ phase: "checked", proof }),
      (error: unknown) => {
        if (!stop.signal.aborted) setState({ phase: "failed", status: error instanceof ApiError ? error.status : 0 });
      },
    );
    return () => stop.abort();
  }, [receiptId, round]);
  return (
    <section class="verify" aria-label={t("verify.label")}>
      {state.phase === "checking" && (
        <p role="status" class="verify-busy">
          <span class="spinner" aria-hidden="true" />
          {t("verify.checking")}
        </p>
      )}
      {state.phase === "failed" && (
        <Notice kind="caution" alert>
          <p>{t(state.status === 404 ? "verify.not_found" : "verify.failed")}</p>
        </Notice>
      )}
      {state.phase === "checked" && <Checked proof={state.proof} />}
      {state.phase !== "checking" && (
        <Button kind="quiet" icon="retry" onClick={() => setRound(round + 1)}>
          {t("verify.again")}
        </Button>
      )}
    </section>
  );
}

function Checked({ proof }: { proof: Proof }) {
  const checks = useMemo(() => grouped(proof.checks), [proof]);
  const shown = useSteps(checks.length);
  const done = shown >= checks.length;
  return (
    <>
      <ol role="list" class="verify-checks">
        {checks.slice(0, shown).map((check, place) => (
          <CheckLine key={place} check={check} />
        ))}
      </ol>
      {done && <Result proof={proof} />}
    </>
  );
}

/** Checks of one kind that hold are one line. */
interface CheckGroup extends Omit<Check, "index"> {
  indexes: number[];
}

function grouped(checks: Check[]): CheckGroup[] {
  const groups: CheckGroup[] = [];
  for (const { index, ...check } of checks) {
    const last = groups.at(-1);
    const indexes = index === undefined ? [] : [index];
    if (last && last.name === check.name && last.ok && check.ok) last.indexes.push(...indexes);
    else groups.push({ ...check, indexes });
  }
  return groups;
}

/** Return numbers as ranges: "1–3, 5". */
function rangesOf(numbers: number[]): string {
  const ranges: [number, number][] = [];
  for (const number of numbers) {
    const last = ranges.at(-1);
    if (last && number === last[1] + 1) last[1] = number;
    else ranges.push([number, number]);
  }
  return ranges.map(([first, end]) => (first === end ? `${first}` : `${first}–${end}`)).join(", ");
}

function CheckLine({ check: { name, ok, detail, indexes } }: { check: CheckGroup }) {
  const known = `verify.check.${name}`;
  const isKnown = Object.hasOwn(viewerEn, known);
  const isChange = !ok && name === "page";
  const kind = ok ? "" : isChange ? " verify-check-changed" : " verify-check-failed";
  return (
    <li class={`verify-check${kind}`}>
      <Icon name={ok ? "check" : isChange ? "caution" : "close"} />
      <div>
        <p>
          <span class="hidden">{t(ok ? "verify.holds" : isChange ? "verify.no_longer" : "verify.fails")}: </span>
          {isKnown ? t(known as Key, { index: rangesOf(indexes) }) : name.replaceAll("_", " ")}
        </p>
        {!(ok && isKnown) && detail && (
          <p class="verify-detail" lang="en">
            {detail}
          </p>
        )}
      </div>
    </li>
  );
}

function Result({ proof }: { proof: Proof }) {
  const { valid, faults, changes, generation, published_generation: published, ms } = proof;
  return (
    <div class="verify-result">
      <Notice kind={valid ? "plain" : "danger"} icon={valid ? "verified" : "caution"}>
        <p role="status">
          <strong>{t(valid ? "verify.valid" : "verify.invalid")}</strong>
        </p>
        <Lines lines={faults} />
        <Lines lines={proof.proved ?? []} />
      </Notice>
      {changes.length > 0 && (
        <Notice kind="caution">
          <p>{t("verify.changed")}</p>
          <Lines lines={changes} />
        </Notice>
      )}
      <p class="verify-facts">
        {t("verify.facts", { ms: Math.round(ms), generation: generation.slice(0, 12) })}
        {published && published !== generation && ` ${t("verify.published", { generation: published.slice(0, 12) })}`}
      </p>
    </div>
  );
}

function Lines({ lines }: { lines: string[] }) {
  if (!lines.length) return null;
  return (
    <ul class="verify-lines" lang="en">
      {lines.map((line) => (
        <li key={line} dir="auto">
          {line}
        </li>
      ))}
    </ul>
  );
}

/** Count up to a number, a step at a time; at once where the reader wants no motion. */
function useSteps(count: number): number {
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const [shown, setShown] = useState(still ? count : Math.min(1, count));
  useEffect(() => {
    if (shown >= count) return;
    const timer = setTimeout(() => setShown(shown + 1), STEP_MS);
    return () => clearTimeout(timer);
  }, [shown, count]);
  return shown;
}
