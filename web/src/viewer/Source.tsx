// A source as the pane and the page of its own show it: facts, outline, text or pictures.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ApiError } from "../api/client";
import type { SourcePage } from "../api/types";
import { t } from "../i18n";
import { selectText } from "../state/selection";
import type { Place } from "../state/viewer";
import { Button } from "../ui/Button";
import { Notice } from "../ui/Notice";
import { AskSelection, clipped } from "./AskSelection";
import { ExternalLink, webAddress } from "./ExternalLink";
import { AlsoAt, Changes, PageFacts, Verified } from "./Facts";
import { Outline } from "./Outline";
import { pageOf, quoteParts, targetIn, type Target } from "./pages";
import { PdfPage } from "./PdfPage";
import { TextPage } from "./TextPage";

interface Props {
  place: Place;
  level: 1 | 2;
  /** Called when somebody wants to ask about a text of this source. */
  onAsk: () => void;
}

/** Load a page and show the place in it; in the pane, what was verified stands above what scrolls. */
export function Source({ place, level, onAsk }: Props) {
  const { page, failure } = usePage(place.pageId);
  const shown = page ? (
    <Loaded page={page} place={place} level={level} onAsk={onAsk} />
  ) : failure ? (
    <Failure failure={failure} place={place} level={level} />
  ) : (
    <Loading />
  );
  return (
    <>
      {page && place.citation && <Verified citation={place.citation} />}
      {level === 1 ? shown : <div class="viewer-scroll">{shown}</div>}
    </>
  );
}

function Loaded({ page, place, level, onAsk }: Props & { page: SourcePage }) {
  const [asText, setAsText] = useState(page.media !== "pdf");
  const [unavailable, setUnavailable] = useState(false);
  const body = useRef<HTMLDivElement>(null);
  const target = useTarget(page, place);
  const first = place.page ?? pageNumberOf(page, place) ?? 1;
  const parts = useMemo(() => quoteParts(page, place.citation, first), [page, place, first]);
  const original = place.citation?.fragment_url || page.url;
  const Title = `h${level}` as "h2";
  function ask(text: string): void {
    const url = place.citation?.url ?? page.url;
    selectText({ text, title: page.title, url, origin: null, pageId: page.page_id });
    onAsk();
  }
  return (
    <>
      <header class="viewer-head">
        <Title class="viewer-title" dir="auto">
          {page.title}
        </Title>
        <PageFacts page={page} />
        {place.citation && <AlsoAt citation={place.citation} />}
        <Changes page={page} citation={place.citation} target={target} />
        <div class="viewer-actions">
          {webAddress(original) && (
            <ExternalLink class="button button-plain" href={original}>
              {t("viewer.original")}
            </ExternalLink>
          )}
          <Button onClick={() => ask(clipped(textOf(page)))}>{t("viewer.ask_page")}</Button>
          {page.media === "pdf" && !unavailable && (
            <Button aria-pressed={asText} kind="quiet" onClick={() => setAsText(!asText)}>
              {t("viewer.as_text")}
            </Button>
          )}
        </div>
        {unavailable && <Notice>{t("viewer.no_picture")}</Notice>}
      </header>
      <p class="hidden" role="status">
        <Announcement page={page} target={target} place={place} />
      </p>
      <div class="viewer-body" ref={body}>
        {asText ? (
          <>
            <Outline page={page} open={false} />
            <TextPage page={page} target={target} level={level} />
          </>
        ) : (
          <PdfPage
            page={page}
            first={first}
            parts={parts}
            onUnavailable={() => {
              setUnavailable(true);
              setAsText(true);
            }}
          />
        )}
        <AskSelection root={body} onAsk={ask} />
      </div>
    </>
  );
}

/** Say what is marked, a moment after the source is shown: a status is only read out when it changes. */
function Announcement({ page, target, place }: { page: SourcePage; target: Target; place: Place }) {
  const [said, setSaid] = useState("");
  useEffect(() => {
    const words = place.citation && !target.lost ? t("viewer.marked", { quote: place.citation.quote, title: page.title }) : page.title;
    const timer = setTimeout(() => setSaid(words), 150);
    return () => clearTimeout(timer);
  }, [page, target]);
  return <>{said}</>;
}

function Failure({ failure, place, level }: Omit<Props, "onAsk"> & { failure: ApiError }) {
  const Title = `h${level}` as "h2";
  const citation = place.citation;
  return (
    <div class="viewer-head">
      <Title class="viewer-title">{t("viewer.no_page")}</Title>
      <Notice kind="caution" alert>
        <p>{t(failure.status === 404 ? "viewer.not_found" : "viewer.failed")}</p>
        {citation && <blockquote dir="auto">{citation.quote}</blockquote>}
        {citation && <ExternalLink href={citation.fragment_url}>{t("viewer.original")}</ExternalLink>}
      </Notice>
    </div>
  );
}

function Loading() {
  return (
    <p class="viewer-loading" role="status">
      <span class="spinner" aria-hidden="true" />
      {t("viewer.loading")}
    </p>
  );
}

function usePage(pageId: string): { page: SourcePage | null; failure: ApiError | null } {
  const [state, setState] = useState<{ id: string; page: SourcePage | null; failure: ApiError | null }>({ id: "", page: null, failure: null });
  useEffect(() => {
    let current = true;
    pageOf(pageId).then(
      (page) => current && setState({ id: pageId, page, failure: null }),
      (error: unknown) => current && setState({ id: pageId, page: null, failure: error instanceof ApiError ? error : new ApiError(0, "FAILED", "") }),
    );
    return () => {
      current = false;
    };
  }, [pageId]);
  return state.id === pageId ? state : { page: null, failure: null };
}

/** The target stays the same object while page and place do: it decides what is scrolled to. */
function useTarget(page: SourcePage, place: Place): Target {
  const known = useRef<{ page: SourcePage; place: Place; target: Target } | null>(null);
  if (known.current?.page !== page || known.current.place !== place) {
    known.current = { page, place, target: targetIn(page, place) };
  }
  return known.current.target;
}

/** Return the page of a file that a passage begins on; of older ones the section is named by it. */
function pageNumberOf(page: SourcePage, place: Place): number | null {
  const section = page.sections.find(({ chunks }) => chunks.some((chunk) => chunk.chunk_id === place.chunkId));
  const begun = section?.chunks.find((chunk) => chunk.chunk_id === place.chunkId)?.pages?.[0];
  if (begun) return begun[1];
  const named = /^page=(\d{1,6})$/.exec(section?.anchor ?? "");
  return named ? Number(named[1]) : null;
}

function textOf(page: SourcePage): string {
  return page.sections
    .map((section) => [section.heading, ...section.chunks.map((chunk) => chunk.text)].filter(Boolean).join("\n\n"))
    .join("\n\n");
}
