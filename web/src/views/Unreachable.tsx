// The page where the server can't be reached.

import { t } from "../i18n";
import { Button } from "../ui/Button";
import { Notice } from "../ui/Notice";

/** Say that nothing can be asked now. */
export function Unreachable({ onRetry }: { onRetry: () => void }) {
  return (
    <main class="sign-in">
      <h1>Citelock</h1>
      <Notice kind="danger" alert>
        {t("error.offline")}
      </Notice>
      <Button icon="retry" onClick={onRetry}>
        {t("retry")}
      </Button>
    </main>
  );
}
