// The page before the first question.

import { t } from "../i18n";
import { ask } from "../state/asking";
import { choices } from "../state/filters";
import { Icon } from "../ui/Icon";

/** Say what this is. */
export function Welcome() {
  return (
    <div class="welcome">
      <h1>{t("welcome.title")}</h1>
      <p class="welcome-text">{t("welcome.text")}</p>
      <ul role="list" class="welcome-points">
        {(["quoted", "checked", "refused"] as const).map((point) => (
          <li key={point}>
            <Icon name="check" /> {t(`welcome.${point}`)}
          </li>
        ))}
      </ul>
    </div>
  );
}

/** Show questions that can be asked; nothing until the server has named some. */
export function Examples() {
  const examples = choices.value?.examples ?? [];
  if (!examples.length) return null;
  return (
    <div class="examples" role="group" aria-label={t("welcome.examples")}>
      <p class="examples-title">{t("welcome.examples")}</p>
      {examples.slice(0, 3).map((example) => (
        <button key={example} type="button" class="example" onClick={() => ask(example)}>
          <span dir="auto">{example}</span>
          <Icon name="ask" />
        </button>
      ))}
    </div>
  );
}
