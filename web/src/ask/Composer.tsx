// The form that asks.

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { t } from "../i18n";
import { ask, stop } from "../state/asking";
import { selection, dropSelection } from "../state/selection";
import { session } from "../state/session";
import { asking, turns } from "../state/turns";
import { Button } from "../ui/Button";
import { Chip } from "../ui/Chip";
import { ChosenFilters, FilterButton } from "./Filters";

export const QUESTION_ID = "question";

/** What is written and not asked yet: it outlives a sign-in. */
export const draft = signal("");

/** How far back ArrowUp has gone; 0: nothing was recalled. */
let recalled = 0;

/** Show the field with its filters; Enter asks, Shift+Enter begins a line, ArrowUp brings earlier questions back. */
export function Composer() {
  const field = useRef<HTMLTextAreaElement>(null);
  const most = session.value?.limits.question_chars ?? 4000;
  const isAsking = asking.value !== null;
  useEffect(() => field.current?.focus({ preventScroll: true }), []);

  function submit(): void {
    const question = draft.peek();
    if (!question.trim() || asking.peek()) return;
    draft.value = "";
    recalled = 0;
    ask(question);
  }

  function onKey(event: KeyboardEvent): void {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      submit();
    } else if (event.key === "ArrowUp" && (!draft.peek() || recalled)) {
      recall(event, recalled + 1);
    } else if (event.key === "ArrowDown" && recalled) {
      recall(event, recalled - 1);
    }
  }

  return (
    <form
      class="composer"
      aria-label={t("ask.form")}
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <Selected />
      <ChosenFilters />
      <div class="composer-field">
        <label class="hidden" for={QUESTION_ID}>
          {t("ask.label")}
        </label>
        <textarea
          id={QUESTION_ID}
          ref={field}
          dir="auto"
          rows={1}
          maxLength={most}
          placeholder={t(turns.value.length ? "ask.follow" : "ask.placeholder")}
          value={draft.value}
          aria-keyshortcuts="/"
          onInput={(event) => {
            recalled = 0;
            draft.value = event.currentTarget.value;
          }}
          onKeyDown={onKey}
        />
        <div class="composer-buttons">
          <FilterButton />
          {isAsking ? (
            <Button icon="stop" onClick={stop}>
              {t("ask.stop")}
            </Button>
          ) : (
            <Button type="submit" kind="primary" icon="ask">
              {t("ask.submit")}
            </Button>
          )}
        </div>
      </div>
    </form>
  );
}

function Selected() {
  const text = selection.value;
  if (!text) return null;
  return (
    <p class="chosen">
      {t("asked.selection")}
      <Chip remove={t("selection.drop")} onRemove={dropSelection}>
        {text.title || text.text.slice(0, 60)}
      </Chip>
    </p>
  );
}

function recall(event: KeyboardEvent, back: number): void {
  const questions = turns.peek().map(({ question }) => question);
  if (back > questions.length) return;
  recalled = back;
  draft.value = questions.at(-back) ?? "";
  if (!back) draft.value = "";
  event.preventDefault();
}
