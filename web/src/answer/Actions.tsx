// What can be done with an answer.

import { lazy } from "../ui/lazy";
import { useState } from "preact/hooks";
import { load, send } from "../api/client";
import type { Answer } from "../api/types";
import { t } from "../i18n";
import type { Key } from "../i18n/en";
import { announce } from "../state/announcement";
import { inTenant } from "../state/route";
import { session } from "../state/session";
import { Button } from "../ui/Button";
import { Feedback } from "./Feedback";
import { markdownOf } from "./markdown";

const Why = lazy(() => import("../views/Why").then(({ Why }) => Why));
const Verify = lazy(() => import("../views/Verify").then(({ Verify }) => Verify));

/** Show the buttons below an answer and what they open. */
export function Actions({ question, answer }: { question: string; answer: Answer }) {
  const [panel, setPanel] = useState<"why" | "verify" | null>(null);
  const [isFollowed, setFollowed] = useState(false);
  const [message, setMessage] = useState<Key | null>(null);
  const { receipt_id: receiptId, citations, outcome } = answer;
  if (answer.status === "clarify" || answer.status === "refused") return null;
  const why = answer.why && (answer.why.passages.length || answer.why.left_out.length) ? answer.why : null;
  const flip = (name: "why" | "verify") => () => setPanel(panel === name ? null : name);
  const tell = (key: Key) => {
    setMessage(key);
    announce(key);
  };
  return (
    <div class="actions">
      <div class="row">
        {why && (
          <Button kind="quiet" icon="info" aria-expanded={panel === "why"} onClick={flip("why")}>
            {t("why")}
          </Button>
        )}
        {receiptId && citations.length > 0 && (
          <Button kind="quiet" icon="verified" aria-expanded={panel === "verify"} onClick={flip("verify")}>
            {t("verify")}
          </Button>
        )}
        {citations.length > 0 && (
          <Button kind="quiet" icon="copy" onClick={() => void copy(markdownOf(question, answer)).then(tell)}>
            {t("copy")}
          </Button>
        )}
        {receiptId && citations.length > 0 && (
          <Button kind="quiet" icon="link" onClick={() => void share(receiptId).then(tell)}>
            {t("share")}
          </Button>
        )}
        {receiptId && citations.length > 0 && session.value?.features.notices && (
          <Button
            kind="quiet"
            icon="flag"
            aria-pressed={isFollowed}
            onClick={() =>
              void follow(receiptId, !isFollowed).then((key) => {
                if (key !== "follow.failed") setFollowed(!isFollowed);
                tell(key);
              })
            }
          >
            {t("follow")}
          </Button>
        )}
        <span class="gap" />
        {receiptId && session.value?.features.feedback !== false && (
          <Feedback receiptId={receiptId} isAnswer={outcome === "told"} />
        )}
      </div>
      {message && <p class="actions-message">{t(message)}</p>}
      {panel === "why" && why && <Why why={why} />}
      {panel === "verify" && receiptId && <Verify receiptId={receiptId} />}
    </div>
  );
}

/** Copy a text; return the key of what happened. */
export async function copy(text: string, done: Key = "copied"): Promise<Key> {
  try {
    await navigator.clipboard.writeText(text);
    return done;
  } catch {
    return "copy.failed";
  }
}

async function follow(receiptId: string, isFollowed: boolean): Promise<Key> {
  try {
    await send(`/v1/receipts/${encodeURIComponent(receiptId)}/subscription`, { method: isFollowed ? "POST" : "DELETE" });
    return isFollowed ? "followed" : "follow.ended";
  } catch {
    return "follow.failed";
  }
}

async function share(receiptId: string): Promise<Key> {
  try {
    const { path } = await load<{ path: string }>(`/v1/receipts/${encodeURIComponent(receiptId)}/share`, { method: "POST" });
    await navigator.clipboard.writeText(new URL(inTenant(path), location.origin).href);
    return "shared";
  } catch {
    return "share.failed";
  }
}
