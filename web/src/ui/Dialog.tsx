// Windows above the page. The browser keeps the focus inside, closes them with Escape and gives the focus back.

import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { t } from "../i18n";
import { Button } from "./Button";

interface DialogProps {
  title: string;
  side?: boolean;
  onClose: () => void;
  children: ComponentChildren;
}

/** Show a modal window while it is mounted; `side` puts it along the edge where lines begin. */
export function Dialog({ title, side = false, onClose, children }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useEffect(() => {
    const opener = document.activeElement;
    ref.current?.showModal();
    return () => {
      if (opener instanceof HTMLElement && opener.isConnected) opener.focus();
    };
  }, []);
  return (
    <dialog
      ref={ref}
      class={side ? "dialog dialog-side" : "dialog"}
      aria-labelledby={heading}
      onClose={onClose}
      onClick={(event) => event.target === ref.current && ref.current?.close()}
    >
      <div class="dialog-head">
        <h2 class="dialog-title" id={heading}>
          {title}
        </h2>
        <Button kind="quiet" icon="close" label={t("close")} onClick={() => ref.current?.close()} />
      </div>
      {children}
    </dialog>
  );
}
