// A document: what becomes of it, its versions, and what can be done with it.

import { useRef, useState } from "preact/hooks";
import type { UploadedDocument } from "../api/types";
import { t } from "../i18n";
import { openPage } from "../state/viewer";
import { Button } from "../ui/Button";
import { Dialog } from "../ui/Dialog";
import { Icon } from "../ui/Icon";
import { Notice } from "../ui/Notice";
import { sizeOf, timeOf } from "../viewer/format";
import { deleteDocument, readDocuments } from "./list";
import { sendFiles } from "./uploads";

interface Props {
  document: UploadedDocument;
  accepts: string[];
}

const BUSY = ["received", "extracting", "chunking", "embedding", "deleting"];

/** Show one document. */
export function DocumentRow({ document, accepts }: Props) {
  const [isAsked, setAsked] = useState(false);
  const [isRefused, setRefused] = useState(false);
  const { document_id: id, name, page_id: pageId, reason, status } = document;
  return (
    <li class="document">
      <div class="document-words">
        <p class="document-name">
          {pageId ? (
            <button type="button" class="view-link" onClick={() => openPage(pageId)}>
              <bdi>{name}</bdi>
            </button>
          ) : (
            <bdi>{name}</bdi>
          )}
        </p>
        <State document={document} />
        {reason && (
          <p class="upload-reason" dir="auto">
            {reason}
          </p>
        )}
        {isRefused && <Notice kind="danger" alert>{t("documents.delete_failed")}</Notice>}
        <p class="view-faint document-facts">
          <span>{sizeOf(document.bytes)}</span>
          <span>{t("documents.read_by", { readers: readersOf(document.readers) })}</span>
          <time dateTime={document.uploaded_at}>{timeOf(document.uploaded_at)}</time>
        </p>
        <Versions document={document} />
      </div>
      <div class="document-actions">
        <Replace id={id} name={name} accepts={accepts} />
        <Button kind="quiet" icon="trash" label={t("documents.delete", { name })} disabled={status === "deleting"} onClick={() => setAsked(true)} />
      </div>
      {isAsked && (
        <Dialog title={t("documents.delete_title")} onClose={() => setAsked(false)}>
          <p>{t("documents.delete_words", { name })}</p>
          <div class="view-buttons">
            <Button
              kind="danger"
              onClick={() => {
                setAsked(false);
                deleteDocument(id).catch(() => setRefused(true));
              }}
            >
              {t("documents.delete_confirm")}
            </Button>
            <Button onClick={() => setAsked(false)}>{t("documents.keep")}</Button>
          </div>
        </Dialog>
      )}
    </li>
  );
}

function State({ document: { status, progress } }: { document: UploadedDocument }) {
  const isBad = status === "failed" || status === "excluded";
  const isBusy = BUSY.includes(status);
  return (
    <p class={isBad ? "view-state view-state-bad" : "view-state"} role="status">
      {isBusy ? <span class="spinner" aria-hidden="true" /> : <Icon name={isBad ? "caution" : "check"} />}
      <span>
        {t(`documents.status.${status}`)}
        {progress && ` ${progressOf(progress)}`}
      </span>
    </p>
  );
}

function progressOf(progress: NonNullable<UploadedDocument["progress"]>): string {
  return "page" in progress ? t("documents.progress", progress) : t("documents.progress_embedded", progress);
}

function Versions({ document }: { document: UploadedDocument }) {
  return (
    <details class="document-versions">
      <summary>{t("documents.version", { version: document.version })}</summary>
      <ol role="list">
        {[...document.versions].reverse().map((version) => (
          <li key={version.version}>
            {t("documents.version", { version: version.version })}, {timeOf(version.uploaded_at)}
            {version.uploaded_by && (
              <>
                , <bdi>{version.uploaded_by}</bdi>
              </>
            )}{" "}
            <code title="SHA-256">{version.sha256.slice(0, 12)}</code>
          </li>
        ))}
      </ol>
    </details>
  );
}

function Replace({ id, name, accepts }: { id: string; name: string; accepts: string[] }) {
  const chooser = useRef<HTMLInputElement>(null);
  return (
    <>
      <input
        ref={chooser}
        type="file"
        hidden
        accept={accepts.join(",")}
        onChange={(event) => {
          const file = event.currentTarget.files?.[0];
          if (file) sendFiles([{ file, readers: "", replaces: id }], () => void readDocuments());
          event.currentTarget.value = "";
        }}
      />
      <Button kind="quiet" icon="upload" label={t("documents.replace", { name })} onClick={() => chooser.current?.click()} />
    </>
  );
}

/** Readers come as the server keeps them: `everyone`, or names with `user:` and `group:`. */
function readersOf(readers: string): string {
  if (readers === "everyone") return t("documents.everyone");
  const names = readers.match(/(?:user|group):[^"\],&|]+/g);
  return names ? names.map((name) => name.slice(name.indexOf(":") + 1)).join(", ") : readers;
}
