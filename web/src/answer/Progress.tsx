// How far an answer is.

import { t } from "../i18n";
import { STEPS, type Step } from "../state/turns";
import { Icon } from "../ui/Icon";

/** Show the steps on one line: those that are done, the one that goes on, those that come. */
export function Progress({ step }: { step: Step }) {
  const now = STEPS.indexOf(step);
  return (
    <ol role="list" class="progress" aria-label={t("progress")}>
      {STEPS.map((name, at) => (
        <li key={name} class={at < now ? "done" : at === now ? "now" : "later"} aria-current={at === now ? "step" : undefined}>
          {at < now ? <Icon name="check" /> : <span class={at === now ? "spinner" : "dot"} />}
          {t(`step.${name}`)}
        </li>
      ))}
    </ol>
  );
}
