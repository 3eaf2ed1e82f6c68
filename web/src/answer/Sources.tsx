// The sources of an answer: what was quoted from where.

import { useComputed } from "@preact/signals";
import { useContext, useState } from "preact/hooks";
import { send } from "../api/client";
import type { Citation } from "../api/types";
import { t } from "../i18n";
import { session } from "../state/session";
import { openCitation, place } from "../state/viewer";
import { Button } from "../ui/Button";
import { Icon } from "../ui/Icon";
import { About } from "./about";
import { factsOf } from "./CitationCard";

/** Show the citations in the order of their numbers; each opens its page beside the answer. */
export function Sources({ citations, receiptId }: { citations: Citation[]; receiptId: string | null }) {
  return (
    <div class="citations">
      <h3 class="citations-title">{t("sources")}</h3>
      <ol role="list">
        {citations.map((citation) => (
          <Source key={`${citation.chunk_id}:${citation.start}`} citation={citation} receiptId={receiptId} />
        ))}
      </ol>
    </div>
  );
}

function Source({ citation, receiptId }: { citation: Citation; receiptId: string | null }) {
  const about = useContext(About);
  const isOpen = useComputed(() => place.value?.citation === citation);
  const path = citation.heading_path.length ? citation.heading_path : [citation.title];
  return (
    <li class="cited" aria-current={isOpen.value ? "true" : undefined}>
      <span class="cited-number" aria-hidden="true">
        {citation.index}
      </span>
      <div class="cited-body">
        <button type="button" class="cited-open" onClick={() => openCitation(citation, about)}>
          <span class="hidden">{t("cite.number", { number: citation.index })} </span>
          <span dir="auto">{path.join(" → ")}</span>
        </button>
        <blockquote class="cited-quote" dir="auto">
          {citation.quote}
        </blockquote>
        <p class="cited-facts">
          <span class={`checked checked-${citation.verification}`}>
            <Icon name={citation.verification === "ocr" ? "caution" : "check"} />{" "}
            {t(`verification.${citation.verification}`, { confidence: citation.ocr_confidence ?? "" })}
          </span>
          {factsOf(citation).map((fact) => (
            <bdi key={fact}>{fact}</bdi>
          ))}
          <Original citation={citation} />
        </p>
        <p class="printed">{citation.url}</p>
      </div>
      {receiptId && session.value?.features.feedback !== false && <Wrong citation={citation} receiptId={receiptId} />}
    </li>
  );
}

/** Show a link to where a quote stands. */
export function Original({ citation }: { citation: Citation }) {
  const url = webAddress(citation.fragment_url || citation.url);
  return url ? (
    <a href={url} target="_blank" rel="noopener noreferrer" class="cited-link">
      {t("cite.original")} <Icon name="external" />
    </a>
  ) : null;
}

function Wrong({ citation, receiptId }: { citation: Citation; receiptId: string }) {
  const [isReported, setReported] = useState(false);
  const report = () => {
    const body = { receipt_id: receiptId, verdict: "wrong_citation", citation: citation.index };
    void send("/v1/feedback", { method: "POST", body }).then(() => setReported(true), () => setReported(false));
  };
  if (isReported)
    return (
      <span class="cited-reported" role="status">
        {t("feedback.thanks")}
      </span>
    );
  return <Button kind="quiet" icon="flag" label={t("feedback.wrong", { number: citation.index })} onClick={report} />;
}

/** Return an address that a link may have: http and https alone. */
export function webAddress(url: string): string | null {
  try {
    return ["http:", "https:"].includes(new URL(url).protocol) ? url : null;
  } catch {
    return null;
  }
}
