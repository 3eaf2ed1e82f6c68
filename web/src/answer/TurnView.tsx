// One question and what became of it.

import { useEffect, useRef } from "preact/hooks";
import { t } from "../i18n";
import { retry } from "../state/asking";
import { readAgain } from "../state/sessions";
import type { Turn } from "../state/turns";
import { Button } from "../ui/Button";
import { Chip } from "../ui/Chip";
import { Notice } from "../ui/Notice";
import { About } from "./about";
import { Actions } from "./Actions";
import { AnswerText } from "./AnswerText";
import { AnswerView, Closest } from "./AnswerView";
import { Failure } from "./Failure";
import { Progress } from "./Progress";
import { whenSeen } from "./whenSeen";

/** Show a turn. It alone is drawn again while its answer streams. */
export function TurnView({ turn }: { turn: Turn }) {
  const ref = useRef<HTMLElement>(null);
  const isStored = turn.state.value.phase === "stored";
  useEffect(() => {
    if (!isStored || !ref.current) return;
    return whenSeen(ref.current, () => void readAgain(turn));
  }, [isStored]);
  return (
    <article class="turn" ref={ref} aria-labelledby={`question-${turn.id}`} id={`turn-${turn.id}`}>
      <h2 class="question" id={`question-${turn.id}`} dir="auto">
        {turn.question}
      </h2>
      <Narrowed turn={turn} />
      <Body turn={turn} />
    </article>
  );
}

function Narrowed({ turn }: { turn: Turn }) {
  const values = Object.values(turn.filters).flat();
  if (!values.length && !turn.selection) return null;
  return (
    <p class="narrowed">
      {t(turn.selection ? "asked.selection" : "asked.in")}
      {turn.selection ? <Chip>{turn.selection.title}</Chip> : values.map((value) => <Chip key={value}>{value}</Chip>)}
    </p>
  );
}

function Body({ turn }: { turn: Turn }) {
  const state = turn.state.value;
  switch (state.phase) {
    case "asking":
      return (
        <>
          <Progress step={state.step} />
          {state.sentences.length > 0 && (
            <div class={`answer answer-${state.outcome ?? "told"}`}>
              {state.outcome === "closest" ? (
                <Closest text={state.sentences.join("\n\n")} citations={[]} />
              ) : (
                <AnswerText text={state.sentences.join("\n\n")} citations={[]} />
              )}
            </div>
          )}
        </>
      );
    case "answered":
      return (
        <About.Provider value={turn.selection}>
          <AnswerView answer={state.answer} />
          <Actions question={turn.question} answer={state.answer} />
        </About.Provider>
      );
    case "failed":
      return <Failure error={state.error} onRetry={() => (turn.receiptId.value ? again(turn) : retry(turn))} />;
    case "stopped":
      return (
        <Notice icon="stop">
          <p>{t("stopped")}</p>
          <p class="row">
            <Button icon="retry" onClick={() => retry(turn)}>
              {t("retry")}
            </Button>
          </p>
        </Notice>
      );
    case "stored":
      return <p class="faint">{t("stored")}</p>;
    case "gone":
      return (
        <Notice>
          <p>{t("gone")}</p>
          <p class="row">
            <Button icon="retry" onClick={() => retry(turn)}>
              {t("ask.again")}
            </Button>
          </p>
        </Notice>
      );
  }
}

/** Read the receipt of an earlier turn again. */
function again(turn: Turn): void {
  turn.state.value = { phase: "stored" };
  void readAgain(turn);
}
