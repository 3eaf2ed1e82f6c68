// What the reader thinks of an answer.

import { useState } from "preact/hooks";
import { ApiError, send } from "../api/client";
import type { Verdict } from "../api/types";
import { t } from "../i18n";
import { Button } from "../ui/Button";
import { Notice } from "../ui/Notice";
import { useFocus } from "../ui/useFocus";

const COMMENT_CHARS = 2000;

/** Show the buttons of feedback; where there is no answer, one that says what is missing. */
export function Feedback({ receiptId, isAnswer }: { receiptId: string; isAnswer: boolean }) {
  const [sent, setSent] = useState<Verdict | null>(null);
  const [open, setOpen] = useState<Verdict | null>(null);
  const [fault, setFault] = useState(false);

  async function report(verdict: Verdict, text = ""): Promise<void> {
    const body = { receipt_id: receiptId, verdict, ...(text ? { comment: text } : {}) };
    try {
      await send("/v1/feedback", { method: "POST", body });
      setFault(false);
      setSent(verdict);
      setOpen(null);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setFault(true);
    }
  }

  const choose = (verdict: Verdict) => () => setOpen(open === verdict ? null : verdict);
  return (
    <>
      {isAnswer && (
        <>
          <Button
            kind="quiet"
            icon="up"
            label={t("feedback.helpful")}
            aria-pressed={sent === "helpful"}
            onClick={() => void report("helpful")}
          />
          <Button
            kind="quiet"
            icon="down"
            label={t("feedback.not_helpful")}
            aria-pressed={sent === "not_helpful"}
            aria-expanded={open === "not_helpful"}
            onClick={choose("not_helpful")}
          />
        </>
      )}
      {!isAnswer && (
        <Button icon="edit" aria-expanded={open === "missing"} onClick={choose("missing")}>
          {t("feedback.missing")}
        </Button>
      )}
      <span role="status" class="feedback-status">
        {sent && t("feedback.thanks")}
      </span>
      {fault && (
        <Notice kind="danger" alert>
          {t("feedback.failed")}
        </Notice>
      )}
      {open && (
        <Comment
          key={open}
          label={t(`feedback.${open === "missing" ? "missing" : "not_helpful"}.comment`)}
          onSend={(text) => void report(open, text)}
          onCancel={() => setOpen(null)}
        />
      )}
    </>
  );
}

interface CommentProps {
  label: string;
  onSend: (text: string) => void;
  onCancel: () => void;
}

function Comment({ label, onSend, onCancel }: CommentProps) {
  const field = useFocus<HTMLTextAreaElement>();
  return (
    <form
      class="feedback-form"
      onSubmit={(event) => {
        event.preventDefault();
        onSend(field.current?.value.trim() ?? "");
      }}
    >
      <label class="field">
        {label}
        <textarea ref={field} class="input" dir="auto" rows={3} maxLength={COMMENT_CHARS} />
      </label>
      <div class="row">
        <Button type="submit" kind="primary">
          {t("feedback.send")}
        </Button>
        <Button onClick={onCancel}>{t("cancel")}</Button>
      </div>
    </form>
  );
}
