// Why there is no answer, where the server or the way to it is the reason.

import { useEffect, useState } from "preact/hooks";
import type { ApiError } from "../api/client";
import { t } from "../i18n";
import type { Key } from "../i18n/en";
import { Button } from "../ui/Button";
import { Notice } from "../ui/Notice";

const byStatus: Record<number, Key> = {
  0: "error.offline",
  401: "error.expired",
  403: "error.forbidden",
  413: "error.too_long",
  429: "error.busy",
  503: "error.unavailable",
  504: "error.slow",
};

/** Say what happened, and when it is worth to try again. */
export function Failure({ error, onRetry }: { error: ApiError; onRetry: () => void }) {
  const left = useCountdown(error);
  const known = byStatus[error.status];
  const words = known ? t(known) : t("error.other");
  return (
    <Notice kind="danger" alert>
      <p>{words}</p>
      {error.message && !(known && error.status !== 403) && <p dir="auto" class="faint">{error.message}</p>}
      {error.status !== 401 && (
        <p class="row">
          <Button icon="retry" disabled={left > 0} onClick={onRetry}>
            {left > 0 ? t("retry.in", { seconds: left }) : t("retry")}
          </Button>
        </p>
      )}
    </Notice>
  );
}

function useCountdown(error: ApiError): number {
  const [left, setLeft] = useState(error.retryAfter ?? 0);
  useEffect(() => {
    const until = Date.now() + (error.retryAfter ?? 0) * 1000;
    const tick = () => setLeft(Math.max(0, Math.ceil((until - Date.now()) / 1000)));
    tick();
    const timer = setInterval(tick, 500);
    return () => clearInterval(timer);
  }, [error]);
  return left;
}
