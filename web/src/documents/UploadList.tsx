// Files on their way, each with how far it is.

import { t } from "../i18n";
import { Button } from "../ui/Button";
import { Icon } from "../ui/Icon";
import { sizeOf } from "../viewer/format";
import { forgetUploads, isUnderWay, stopUpload, uploads, type Upload } from "./uploads";

/** Show the uploads of this page; nothing where there are none. */
export function UploadList() {
  const all = uploads.value;
  if (!all.length) return null;
  const open = all.filter(isUnderWay).length;
  return (
    <section aria-labelledby="uploads-title">
      <div class="view-head">
        <h2 id="uploads-title">{t("documents.uploads")}</h2>
        {open < all.length && (
          <Button kind="quiet" onClick={() => forgetUploads()}>
            {t("documents.clear")}
          </Button>
        )}
      </div>
      <p class="hidden" role="status">
        {t("documents.uploads_done", { done: all.length - open, count: all.length })}
      </p>
      <ul role="list" class="uploads">
        {all.map((upload) => (
          <Line key={upload.id} upload={upload} />
        ))}
      </ul>
    </section>
  );
}

function Line({ upload }: { upload: Upload }) {
  const { id, name, bytes, sent, state, message } = upload;
  return (
    <li class={`upload upload-${state}`}>
      <div class="upload-words">
        <bdi class="upload-name">{name}</bdi>
        <span class="view-faint">{sizeOf(bytes)}</span>
        <span class={state === "failed" ? "view-state view-state-bad" : "view-faint"}>
          {state === "failed" && <Icon name="caution" />}
          {t(`documents.upload.${state}`, { percent: bytes ? Math.floor((100 * sent) / bytes) : 0 })}
        </span>
      </div>
      {state === "failed" && <p class="upload-reason" dir="auto">{message || t("documents.unreachable")}</p>}
      {isUnderWay(upload) && <progress value={sent} max={Math.max(1, bytes)} aria-label={t("documents.sending", { name })} />}
      {isUnderWay(upload) && <Button kind="quiet" icon="close" label={t("documents.stop", { name })} onClick={() => stopUpload(id)} />}
    </li>
  );
}
