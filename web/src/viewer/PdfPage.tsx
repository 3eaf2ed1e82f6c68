// A page of a PDF file: its picture, with the quote's rectangles and the words laid over it so that they can be selected.

import { useEffect, useRef, useState } from "preact/hooks";
import { load, withTenant } from "../api/client";
import type { PageLayer, SourcePage } from "../api/types";
import { t } from "../i18n";
import { pageTold } from "./format";
import { Button } from "../ui/Button";
import type { QuotePart } from "./pages";

interface Props {
  page: SourcePage;
  /** The page of the file to begin with, from 1. */
  first: number;
  /** The quote to mark, by page. */
  parts: QuotePart[];
  /** Called where the server cannot show pictures of this file. */
  onUnavailable: () => void;
}

const MOST_CHARS = 2000;
const ZOOMS = [1, 1.25, 1.5, 2, 3];

/** Show one page of a file; arrow keys turn pages, plus and minus change the size. */
export function PdfPage({ page, first, parts, onUnavailable }: Props) {
  const [number, setNumber] = useState(first);
  const [zoom, setZoom] = useState(0);
  const [layer, setLayer] = useState<PageLayer | null>(null);
  const sheet = useRef<HTMLDivElement>(null);
  const last = page.page_count ?? 1;
  const base = `/v1/pages/${encodeURIComponent(page.page_id)}`;
  useEffect(() => setNumber(first), [page, first]);
  useEffect(() => {
    const stop = new AbortController();
    const asked = parts.find((part) => part.page === number);
    load<PageLayer>(`${base}/layer?${new URLSearchParams(queryOf(number, asked))}`, { signal: stop.signal }).then(setLayer, () => {
      if (!stop.signal.aborted) onUnavailable();
    });
    return () => stop.abort();
  }, [base, number, parts]);
  useEffect(() => {
    if (layer?.boxes.length) sheet.current?.querySelector(".sheet-quote")?.scrollIntoView({ block: "center", inline: "center" });
  }, [layer, zoom]);

  const turn = (to: number) => setNumber(Math.min(last, Math.max(1, to)));
  const size = (to: number) => setZoom(Math.min(ZOOMS.length - 1, Math.max(0, to)));
  function onKey(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const acts: Record<string, () => void> = {
      ArrowLeft: () => turn(number - 1),
      ArrowRight: () => turn(number + 1),
      Home: () => turn(1),
      End: () => turn(last),
      "+": () => size(zoom + 1),
      "-": () => size(zoom - 1),
      "0": () => size(0),
    };
    const act = acts[event.key];
    if (!act) return;
    act();
    event.preventDefault();
  }

  const current = layer?.page === number ? layer : null;
  return (
    <div class="sheets">
      <div class="sheets-bar" role="group" aria-label={t("viewer.turning")}>
        <Button kind="quiet" icon="previous" label={t("viewer.previous_page")} disabled={number <= 1} onClick={() => turn(number - 1)} />
        <span role="status">{t("viewer.page_of", { page: pageTold(number, current?.label), count: last })}</span>
        <Button kind="quiet" icon="next" label={t("viewer.next_page")} disabled={number >= last} onClick={() => turn(number + 1)} />
        <span class="sheets-gap" />
        <Button kind="quiet" icon="plus" label={t("viewer.zoom_in")} disabled={zoom === ZOOMS.length - 1} onClick={() => size(zoom + 1)} />
        <Button kind="quiet" disabled={zoom === 0} onClick={() => size(0)}>
          {t("viewer.zoom_reset", { percent: ZOOMS[zoom]! * 100 })}
        </Button>
      </div>
      <div class="sheet-frame" ref={sheet} tabIndex={0} role="region" aria-label={t("viewer.page_number", { page: number })} onKeyDown={onKey}>
        <div class="sheet" style={{ inlineSize: `${ZOOMS[zoom]! * 100}%`, aspectRatio: current ? `${current.width} / ${current.height}` : "1 / 1.414" }}>
          <img
            src={withTenant(`${base}/image?page=${number}&scale=${zoom >= 2 ? 3 : 2}`)}
            alt={current ? words(current) : t("viewer.page_number", { page: number })}
            onError={onUnavailable}
          />
          {current && <Layer layer={current} />}
        </div>
      </div>
    </div>
  );
}

/** Return what is asked of a page: where a part of a quote stands, told by what stands around it from the same words. */
function queryOf(number: number, part: QuotePart | undefined): Record<string, string> {
  if (!part) return { page: String(number) };
  const { quote, before, after } = part;
  return { page: String(number), quote: quote.slice(0, MOST_CHARS), before, after };
}

function words(layer: PageLayer): string {
  return layer.words.map((word) => word[4]).join(" ");
}

/** The words are drawn transparent, each as wide as in the picture, so that selecting them selects what is seen. */
function Layer({ layer }: { layer: PageLayer }) {
  return (
    <svg class="sheet-layer" viewBox={`0 0 ${layer.width} ${layer.height}`} aria-hidden="true">
      {layer.boxes.map(([x0, y0, x1, y1]) => (
        <rect key={`${x0} ${y0}`} class="sheet-quote" x={x0} y={y0} width={x1 - x0} height={y1 - y0} rx={1.5} />
      ))}
      <text class="sheet-words">
        {layer.words.map(([x0, y0, x1, y1, word], place) => (
          <tspan
            key={place}
            x={x0}
            y={y1 - (y1 - y0) * 0.22}
            font-size={(y1 - y0) * 0.82}
            textLength={lengthOf(x1 - x0, word)}
            lengthAdjust="spacingAndGlyphs"
          >
            {`${word} `}
          </tspan>
        ))}
      </text>
    </svg>
  );
}

/** The width of a word with the space behind it. */
function lengthOf(width: number, word: string): number {
  return (width * (word.length + 1)) / Math.max(1, word.length);
}
