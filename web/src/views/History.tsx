// Earlier sessions.

import { useState } from "preact/hooks";
import { dated, t } from "../i18n";
import { currentId, keptSessions, newSession, openSession, remove, removeAll, rename, type KeptSession } from "../state/sessions";
import { Button } from "../ui/Button";
import { Dialog } from "../ui/Dialog";
import { useFocus } from "../ui/useFocus";

/** Show the sessions that the browser keeps for this reader. */
export function History({ onClose }: { onClose: () => void }) {
  const [isAsked, setAsked] = useState(false);
  const sessions = keptSessions.value;
  const then = (act: () => void) => () => {
    act();
    onClose();
  };
  return (
    <Dialog title={t("history")} side onClose={onClose}>
      <div class="history">
        <Button icon="plus" onClick={then(newSession)}>
          {t("history.new")}
        </Button>
        <p class="faint">{t("history.kept")}</p>
        {!sessions.length && <p>{t("history.none")}</p>}
        <ul role="list">
          {sessions.map((kept) => (
            <Kept key={kept.id} kept={kept} onOpen={then(() => openSession(kept.id))} />
          ))}
        </ul>
        {sessions.length > 0 &&
          (isAsked ? (
            <div class="row">
              <Button kind="danger" icon="trash" onClick={then(removeAll)}>
                {t("history.remove.sure")}
              </Button>
              <Button onClick={() => setAsked(false)}>{t("cancel")}</Button>
            </div>
          ) : (
            <Button kind="quiet" icon="trash" onClick={() => setAsked(true)}>
              {t("history.remove.all")}
            </Button>
          ))}
      </div>
    </Dialog>
  );
}

function Kept({ kept, onOpen }: { kept: KeptSession; onOpen: () => void }) {
  const [isRenamed, setRenamed] = useState(false);
  const { id, title } = kept;
  if (isRenamed) return <Renamed kept={kept} onDone={() => setRenamed(false)} />;
  return (
    <li class="history-row" aria-current={currentId.value === id ? "true" : undefined}>
      <button type="button" class="history-open" onClick={onOpen}>
        <span dir="auto">{title}</span>
        <span class="faint">{dated(kept.at)}</span>
      </button>
      <Button kind="quiet" icon="edit" label={t("history.rename", { title })} onClick={() => setRenamed(true)} />
      <Button kind="quiet" icon="trash" label={t("history.remove", { title })} onClick={() => remove(id)} />
    </li>
  );
}

function Renamed({ kept, onDone }: { kept: KeptSession; onDone: () => void }) {
  const field = useFocus<HTMLInputElement>();
  return (
    <li>
      <form
        class="history-row"
        onSubmit={(event) => {
          event.preventDefault();
          const title = field.current?.value.trim();
          if (title) rename(kept.id, title);
          onDone();
        }}
      >
        <input ref={field} class="input" dir="auto" aria-label={t("history.title")} defaultValue={kept.title} />
        <Button type="submit" icon="check" label={t("save")} />
      </form>
    </li>
  );
}
