// The view /documents, for editors: uploads, what becomes of them, versions, replacing and deleting.

import { useEffect } from "preact/hooks";
import { DocumentRow } from "../documents/DocumentRow";
import { DropZone } from "../documents/DropZone";
import { failure, followDocuments, isLive, list, readDocuments } from "../documents/list";
import { UploadList } from "../documents/UploadList";
import { t } from "../i18n";
import { hasRole, reader } from "../state/session";
import { Button } from "../ui/Button";
import { Notice } from "../ui/Notice";
import "./views.css";

/** Show the documents of an editor; everybody else is told whom they are for. */
export function Documents() {
  const isEditor = hasRole("editor");
  useEffect(() => {
    if (!isEditor) return;
    void readDocuments();
    return followDocuments();
  }, [isEditor, reader.value]);
  const current = list.value;
  const failed = failure.value;
  return (
    <section class="view" aria-labelledby="documents-title">
      <header class="view-head">
        <h1 id="documents-title">{t("documents.title")}</h1>
        {isEditor && !isLive.value && current && (
          <Button icon="retry" onClick={() => void readDocuments()}>
            {t("status.refresh")}
          </Button>
        )}
      </header>
      {!isEditor && <Notice>{t("documents.editors_only")}</Notice>}
      {isEditor && failed !== null && (
        <Notice kind="caution" alert>
          {t(failed === 403 || failed === 404 ? "documents.editors_only" : "documents.failed")}
        </Notice>
      )}
      {isEditor && current && (
        <>
          {current.sources?.length === 0 ? <Notice>{t("documents.no_inbox")}</Notice> : <DropZone list={current} />}
          <UploadList />
          <section aria-labelledby="documents-list-title">
            <h2 id="documents-list-title">{t("documents.list", { count: current.documents.length })}</h2>
            {current.documents.length === 0 && <p class="view-faint">{t("documents.empty")}</p>}
            <ul role="list" class="documents">
              {current.documents.map((document) => (
                <DocumentRow key={document.document_id} document={document} accepts={current.accepts} />
              ))}
            </ul>
          </section>
        </>
      )}
    </section>
  );
}
