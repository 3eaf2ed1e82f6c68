// What is known about a cited quote: how it was checked, where and how old it is.

import type { Citation, SourcePage } from "../api/types";
import { t } from "../i18n";
import { Icon } from "../ui/Icon";
import { Notice } from "../ui/Notice";
import { ExternalLink } from "./ExternalLink";
import { dayOf } from "./format";
import type { Target } from "./pages";

const icons = { exact: "verified", ocr: "caution", fuzzy: "check", swapped: "check" } as const;

/** Show how a quote was checked. */
export function Verified({ citation }: { citation: Citation }) {
  return (
    <p class={`viewer-verified viewer-verified-${citation.verification}`}>
      <Icon name={icons[citation.verification]} />
      <span>{t(`viewer.verified.${citation.verification}`, { confidence: citation.ocr_confidence ?? "" })}</span>
    </p>
  );
}

/** Show where else a quote stands; nothing where it stands on one page alone. */
export function AlsoAt({ citation }: { citation: Citation }) {
  const others = citation.also_at ?? [];
  if (!others.length) return null;
  return (
    <p class="viewer-facts">
      {t("viewer.also_at")}{" "}
      {others.map((place, position) => (
        <span key={place.url}>
          {position > 0 && " · "}
          <ExternalLink href={place.url}>
            <bdi>{place.title}</bdi>
          </ExternalLink>{" "}
          <span class="viewer-space">{place.space}</span>
        </span>
      ))}
    </p>
  );
}

/** Show the page's space, version, date and labels. */
export function PageFacts({ page }: { page: SourcePage }) {
  const day = dayOf(page.updated_at);
  return (
    <p class="viewer-page-facts">
      <span class="viewer-space" dir="auto">{page.space}</span>
      <span>{t("viewer.version", { version: page.version })}</span>
      {day && <time dateTime={page.updated_at!}>{t("viewer.updated", { day })}</time>}
      {page.labels.slice(0, 8).map((label) => (
        <span key={label} class="viewer-label" dir="auto">
          {label}
        </span>
      ))}
    </p>
  );
}

/** Say where the page is no longer what the answer was checked against. */
export function Changes({ page, citation, target }: { page: SourcePage; citation: Citation | null; target: Target }) {
  if (!citation) return target.lost ? <Notice>{t("viewer.passage_gone")}</Notice> : null;
  const newer = page.version !== citation.page_version;
  if (!newer && !target.lost) return null;
  return (
    <Notice kind={target.lost ? "caution" : "plain"}>
      {newer && <p>{t("viewer.newer", { now: page.version, then: citation.page_version })}</p>}
      {target.lost && (
        <>
          <p>{t("viewer.quote_gone")}</p>
          <blockquote dir="auto">{citation.quote}</blockquote>
        </>
      )}
    </Notice>
  );
}
