// The text that a question was about, with the quote of an answer marked in it.

import { useLayoutEffect, useRef } from "preact/hooks";
import { t } from "../i18n";
import type { Place } from "../state/viewer";
import { ExternalLink } from "./ExternalLink";
import { Inline } from "./Inline";

/** Show a selected text, marked and in view. */
export function SelectedText({ place }: { place: Place }) {
  const root = useRef<HTMLDivElement>(null);
  const { text, title, url } = place.selection!;
  useLayoutEffect(() => {
    const mark = root.current?.querySelector<HTMLElement>("mark.quote");
    mark?.scrollIntoView({ block: "center" });
    mark?.focus({ preventScroll: true });
  }, [place]);
  return (
    <div ref={root}>
      <header class="viewer-head">
        <h2 class="viewer-title">{t("viewer.selection")}</h2>
        <p class="viewer-page-facts">
          <ExternalLink href={url}>
            <bdi>{title}</bdi>
          </ExternalLink>
        </p>
      </header>
      <div class="viewer-body">
        <p class="viewer-selected" dir="auto" lang="">
          <Inline text={text} start={0} end={text.length} runs={[]} hidden={[]} marks={place.marks} />
        </p>
      </div>
    </div>
  );
}
