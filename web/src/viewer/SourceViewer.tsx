// The source pane: beside the answer where there is room, over it on a narrow screen.

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { t } from "../i18n";
import { inTenant } from "../state/route";
import { session } from "../state/session";
import { closeViewer, place } from "../state/viewer";
import { Button } from "../ui/Button";
import { SelectedText } from "./SelectedText";
import { Source } from "./Source";
import "./viewer.css";

const wide = matchMedia("(min-width: 64rem)");
const beside = signal(wide.matches);
wide.addEventListener("change", () => (beside.value = wide.matches));

/** Show the place of state/viewer; nothing while there is none, or nobody is signed in. */
export function SourceViewer() {
  const shown = place.value;
  if (!shown || !session.value?.signed_in) return null;
  const content = shown.selection ? <div class="viewer-scroll"><SelectedText place={shown} /></div> : <Source place={shown} level={2} onAsk={closeViewer} />;
  return beside.value ? <Beside>{content}</Beside> : <Over>{content}</Over>;
}

function Beside({ children }: { children: ComponentChildren }) {
  const root = useRef<HTMLElement>(null);
  useEffect(() => root.current?.focus({ preventScroll: true }), []);
  return (
    <aside
      class="viewer-pane"
      ref={root}
      tabIndex={-1}
      aria-label={t("viewer.label")}
      onKeyDown={(event) => event.key === "Escape" && closeViewer()}
    >
      <Bar />
      {children}
    </aside>
  );
}

function Over({ children }: { children: ComponentChildren }) {
  const root = useRef<HTMLDialogElement>(null);
  useEffect(() => root.current?.showModal(), []);
  return (
    <dialog class="viewer-pane viewer-pane-over" ref={root} aria-label={t("viewer.label")} onClose={closeViewer}>
      <Bar />
      {children}
    </dialog>
  );
}

function Bar() {
  const shown = place.value;
  return (
    <div class="viewer-bar">
      <p class="viewer-bar-label">{t("viewer.label")}</p>
      {shown && !shown.selection && (
        <a class="button button-quiet" href={inTenant(addressOf(shown.pageId, shown.chunkId))} target="_blank" rel="noopener noreferrer">
          {t("viewer.alone")}
        </a>
      )}
      <Button kind="quiet" icon="close" label={t("viewer.close")} onClick={closeViewer} />
    </div>
  );
}

/** Return the address of a page in this product, at a passage of it. */
export function addressOf(pageId: string, chunkId: string | null): string {
  return `/p/${encodeURIComponent(pageId)}${chunkId ? `#chunk=${encodeURIComponent(chunkId)}` : ""}`;
}
