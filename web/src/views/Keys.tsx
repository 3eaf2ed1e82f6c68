// The list of keys.

import { t } from "../i18n";
import { Dialog } from "../ui/Dialog";

const KEYS = [
  ["/", "keys.focus"],
  ["Enter", "keys.ask"],
  ["Shift + Enter", "keys.line"],
  ["↑", "keys.recall"],
  ["Esc", "keys.leave"],
  ["← →", "keys.numbers"],
  ["?", "keys.list"],
] as const;

/** Show which keys do what. */
export function Keys({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title={t("keys")} onClose={onClose}>
      <dl class="keys">
        {KEYS.map(([key, words]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{t(words)}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
