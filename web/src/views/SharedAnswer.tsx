// The view /a/{receipt_id}: an answer as its receipt keeps it, for those who may read all that it rests on.

import { useEffect, useState } from "preact/hooks";
import { AnswerView } from "../answer/AnswerView";
import { ApiError, load } from "../api/client";
import { answerOf } from "../api/receipts";
import type { Receipt } from "../api/types";
import { t } from "../i18n";
import { go } from "../state/route";
import { Button } from "../ui/Button";
import { Notice } from "../ui/Notice";
import { timeOf } from "../viewer/format";
import { Verify } from "./Verify";
import "./views.css";

type State = { phase: "loading" } | { phase: "failed"; status: number } | { phase: "there"; receipt: Receipt };

/** Show a shared answer with when it was asked, and a button that checks it. */
export function SharedAnswer({ receiptId }: { receiptId: string }) {
  const [state, setState] = useState<State>({ phase: "loading" });
  useEffect(() => {
    const stop = new AbortController();
    setState({ phase: "loading" });
    load<Receipt>(`/v1/receipts/${encodeURIComponent(receiptId)}`, { signal: stop.signal }).then(
      (receipt) => setState({ phase: "there", receipt }),
      (error: unknown) => {
        if (!stop.signal.aborted) setState({ phase: "failed", status: error instanceof ApiError ? error.status : 0 });
      },
    );
    return () => stop.abort();
  }, [receiptId]);
  return (
    <article class="view view-narrow">
      {state.phase === "loading" && <p role="status">{t("shared.loading")}</p>}
      {state.phase === "failed" && <Failed status={state.status} />}
      {state.phase === "there" && <Shown receipt={state.receipt} receiptId={receiptId} />}
    </article>
  );
}

function Shown({ receipt, receiptId }: { receipt: Receipt; receiptId: string }) {
  const [isChecked, setChecked] = useState(false);
  const { question, created_at: asked, generation } = receipt;
  return (
    <>
      <header>
        <h1 class="shared-question" dir="auto">
          <span class="hidden">{t("shared.question")}: </span>
          {question || t("shared.unknown_question")}
        </h1>
        <p class="view-faint">{t("shared.asked", { time: timeOf(asked), generation: generation.slice(0, 12) })}</p>
      </header>
      <h2 class="hidden">{t("shared.answer")}</h2>
      <AnswerView answer={answerOf(receiptId, receipt)} />
      <div class="view-buttons">
        <Button icon="verified" aria-expanded={isChecked} onClick={() => setChecked(!isChecked)}>
          {t("shared.verify")}
        </Button>
        <AskButton />
      </div>
      {isChecked && <Verify receiptId={receiptId} />}
    </>
  );
}

function Failed({ status }: { status: number }) {
  const isHidden = status === 404 || status === 403;
  return (
    <>
      <h1>{t("shared.no_answer")}</h1>
      <Notice kind={isHidden ? "plain" : "caution"} alert>
        <p>{t(isHidden ? "shared.not_found" : "shared.failed")}</p>
        {isHidden && <p>{t("shared.ask_author")}</p>}
      </Notice>
      <p class="view-buttons">
        <AskButton />
      </p>
    </>
  );
}

function AskButton() {
  return (
    <Button icon="ask" onClick={() => go("/")}>
      {t("shared.ask")}
    </Button>
  );
}
