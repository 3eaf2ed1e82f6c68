// Where files are dropped or chosen, and who may read them.

import { useId, useRef, useState } from "preact/hooks";
import type { DocumentList } from "../api/types";
import { t } from "../i18n";
import { Button } from "../ui/Button";
import { Icon } from "../ui/Icon";
import { sizeOf } from "../viewer/format";
import { readDocuments } from "./list";
import { sendFiles } from "./uploads";

/** Endings that people look for first. */
const USUAL = [".pdf", ".docx", ".pptx", ".xlsx", ".md", ".html", ".txt", ".csv", ".json", ".yaml"];

/** Show the field for files; the first choice of readers is the narrowest. */
export function DropZone({ list }: { list: DocumentList }) {
  const [readers, setReaders] = useState(list.readers[0]?.value ?? "");
  const [isOver, setOver] = useState(false);
  const chooser = useRef<HTMLInputElement>(null);
  const id = useId();
  function take(files: FileList | null | undefined): void {
    if (files?.length) sendFiles([...files].map((file) => ({ file, readers })), () => void readDocuments());
  }
  return (
    <div
      class={isOver ? "drop drop-over" : "drop"}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        take(event.dataTransfer?.files);
      }}
    >
      <Icon name="upload" />
      <p class="drop-words">{t("documents.drop")}</p>
      <input
        ref={chooser}
        type="file"
        multiple
        hidden
        accept={list.accepts.join(",")}
        onChange={(event) => {
          take(event.currentTarget.files);
          event.currentTarget.value = "";
        }}
      />
      <Button kind="primary" icon="plus" onClick={() => chooser.current?.click()}>
        {t("documents.choose")}
      </Button>
      {list.readers.length > 0 && (
        <p class="drop-readers">
          <label for={id}>{t("documents.readers")}</label>
          <select class="input" id={id} value={readers} onChange={(event) => setReaders(event.currentTarget.value)}>
            {list.readers.map(({ value, label }) => (
              <option key={value} value={value}>
                {value === "everyone" ? t("documents.everyone") : label}
              </option>
            ))}
          </select>
        </p>
      )}
      <p class="view-faint">{t("documents.accepts", { size: sizeOf(list.max_bytes), kinds: kindsOf(list.accepts) })}</p>
    </div>
  );
}

function kindsOf(accepts: string[]): string {
  const some = USUAL.filter((kind) => accepts.includes(kind));
  return some.length < accepts.length ? `${some.join(" ")} …` : some.join(" ");
}
