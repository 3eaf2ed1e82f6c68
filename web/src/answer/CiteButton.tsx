// The number of a source inside an answer.

import { useComputed } from "@preact/signals";
import { useContext } from "preact/hooks";
import type { Citation } from "../api/types";
import { t } from "../i18n";
import { card, hideCard, showCard } from "../state/card";
import { openCitation, place } from "../state/viewer";
import { About } from "./about";
import { CARD_ID } from "./CitationCard";

/** Show a number whose card comes with the pointer or the focus, and whose page opens with a click. */
export function CiteButton({ citations }: { citations: Citation[] }) {
  const citation = citations[0]!;
  const about = useContext(About);
  const isShown = useComputed(() => card.value?.citation === citation).value;
  const isOpen = useComputed(() => place.value?.citation === citation).value;
  const show = (event: Event, atOnce: boolean) => {
    showCard({ citation, anchor: event.currentTarget as HTMLElement }, atOnce);
  };
  return (
    <button
      type="button"
      class="cite"
      aria-label={t("cite.label", { number: citation.index, title: citation.title })}
      aria-describedby={isShown ? CARD_ID : undefined}
      aria-expanded={isOpen}
      onPointerEnter={(event) => event.pointerType === "mouse" && show(event, false)}
      onPointerLeave={() => hideCard(false)}
      onFocus={(event) => event.currentTarget.matches(":focus-visible") && show(event, true)}
      onBlur={() => hideCard(true)}
      onClick={() => {
        hideCard(true);
        openCitation(citation, about);
      }}
    >
      {citation.index}
    </button>
  );
}

/** Move the focus to the next or previous number of the same answer, as arrows ask for. */
export function moveAmongNumbers(event: KeyboardEvent): void {
  const here = event.target as HTMLElement;
  if (!here.classList.contains("cite") || !["ArrowLeft", "ArrowRight"].includes(event.key)) return;
  const all = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>(".cite")];
  const forward = (event.key === "ArrowRight") === (getComputedStyle(here).direction === "ltr");
  all[(all.indexOf(here) + (forward ? 1 : -1) + all.length) % all.length]?.focus();
  event.preventDefault();
}
