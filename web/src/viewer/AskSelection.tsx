// "Ask about this text": a button beside what is selected in a source.

import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { t } from "../i18n";
import { session } from "../state/session";
import { Button } from "../ui/Button";

interface Props {
  root: RefObject<HTMLElement | null>;
  onAsk: (text: string) => void;
}

interface Spot {
  text: string;
  top: number;
  left: number;
}

/** Show the button while text inside of `root` is selected. Tab leads from the selected text to it, Escape drops it. */
export function AskSelection({ root, onAsk }: Props) {
  const [spot, setSpot] = useState<Spot | null>(null);
  const button = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const look = () => setSpot(spotIn(root.current));
    const onKey = (event: KeyboardEvent) => {
      if (!spotIn(root.current) || button.current?.contains(document.activeElement)) return;
      if (event.key === "Tab" && !event.shiftKey) {
        button.current?.querySelector("button")?.focus();
        event.preventDefault();
      } else if (event.key === "Escape") {
        getSelection()?.removeAllRanges();
        event.stopPropagation();
      }
    };
    document.addEventListener("selectionchange", look);
    document.addEventListener("keydown", onKey, true);
    addEventListener("scroll", look, { capture: true, passive: true });
    return () => {
      document.removeEventListener("selectionchange", look);
      document.removeEventListener("keydown", onKey, true);
      removeEventListener("scroll", look, { capture: true });
    };
  }, [root]);
  if (!spot) return null;
  return (
    <div class="ask-selection" ref={button} style={{ top: `${spot.top}px`, left: `${spot.left}px` }}>
      <Button
        kind="primary"
        icon="ask"
        onMouseDown={(event) => event.preventDefault()}
        onClick={() => {
          onAsk(spot.text);
          getSelection()?.removeAllRanges();
          setSpot(null);
        }}
      >
        {t("viewer.ask_selection")}
      </Button>
    </div>
  );
}

/** Return a text that is short enough to be asked about. */
export function clipped(text: string): string {
  return text.slice(0, session.value?.limits.selection_chars ?? 50_000);
}

function spotIn(root: HTMLElement | null): Spot | null {
  const chosen = getSelection();
  if (!root || !chosen || chosen.isCollapsed || !chosen.rangeCount) return null;
  const range = chosen.getRangeAt(0);
  if (!root.contains(range.commonAncestorContainer)) return null;
  const text = chosen.toString().trim();
  if (!text) return null;
  const lines = range.getClientRects();
  const last = lines[lines.length - 1] ?? range.getBoundingClientRect();
  const top = Math.min(innerHeight - 56, Math.max(8, last.bottom + 6));
  return { text: clipped(text), top, left: Math.min(innerWidth - 220, Math.max(8, last.left)) };
}
