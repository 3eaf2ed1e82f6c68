// The card over a number: the quote inside its surroundings, and where it stands.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { passageOf } from "../api/passages";
import type { Citation, Passage } from "../api/types";
import { dated, t } from "../i18n";
import { card, hideCard, holdCard, type Card } from "../state/card";
import { Icon } from "../ui/Icon";
import { pageTold } from "../viewer/format";
import { surroundingsOf } from "./surroundings";

export const CARD_ID = "citation-card";

/** Show the card of state/card beside its number. */
export function CitationCard() {
  const current = card.value;
  return current && <Shown key={current.citation.chunk_id + current.citation.start} {...current} />;
}

function Shown({ citation, anchor }: Card) {
  const ref = useRef<HTMLDivElement>(null);
  const [passage, setPassage] = useState<Passage | null>(null);
  useEffect(() => {
    let isHere = true;
    void passageOf(citation.chunk_id).then((found) => isHere && setPassage(found));
    const leave = (event: KeyboardEvent) => {
      if (event.key !== "Escape") return;
      hideCard(true);
      event.stopPropagation();
    };
    const away = () => hideCard(true);
    addEventListener("keydown", leave, true);
    addEventListener("scroll", away, { passive: true });
    return () => {
      isHere = false;
      removeEventListener("keydown", leave, true);
      removeEventListener("scroll", away);
    };
  }, []);
  useLayoutEffect(() => put(ref.current!, anchor), [passage, anchor]);
  const { before, quote, after } = surroundingsOf(citation, passage);
  const elsewhere = citation.also_at ?? [];
  return (
    <div
      ref={ref}
      class="card"
      id={CARD_ID}
      role="tooltip"
      onPointerEnter={holdCard}
      onPointerLeave={() => hideCard(false)}
    >
      <p class="card-title" dir="auto">
        {citation.heading_path.length ? citation.heading_path.join(" → ") : citation.title}
      </p>
      <p class="card-quote" dir="auto">
        {before}
        <mark>{quote}</mark>
        {after}
      </p>
      <p class="card-check">
        <Icon name={citation.verification === "ocr" ? "caution" : "verified"} />{" "}
        {t(`verification.${citation.verification}.long`, { confidence: citation.ocr_confidence ?? "" })}
      </p>
      <p class="card-facts">{factsOf(citation, passage).join(" · ")}</p>
      {elsewhere.length > 0 && (
        <p class="card-facts">
          {t("cite.elsewhere")} <bdi>{elsewhere.map(({ title, space }) => `${title} (${space})`).join("; ")}</bdi>
        </p>
      )}
    </div>
  );
}

/** Return where a quote stands, in short texts: space, version, date, page of a document. */
export function factsOf(citation: Citation, passage: Passage | null = null): string[] {
  const page = pageTold(citation.page ?? passage?.page_number, citation.page_label);
  const date = dated(citation.updated_at ?? passage?.page.updated_at);
  const facts = [citation.space, t("cite.version", { version: citation.page_version }), date, page ? t("cite.page", { page }) : ""];
  return facts.filter(Boolean);
}

/** Put the card below its number, or above it where there is no room, inside the window. */
function put(shown: HTMLElement, anchor: HTMLElement): void {
  const room = 8;
  const box = anchor.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = shown;
  const below = box.bottom + room;
  const top = below + height <= innerHeight - room ? below : Math.max(room, box.top - room - height);
  const left = Math.min(Math.max(room, box.left + box.width / 2 - width / 2), document.documentElement.clientWidth - width - room);
  shown.style.top = `${top}px`;
  shown.style.left = `${Math.max(room, left)}px`;
}
