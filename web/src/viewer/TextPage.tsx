// A page's stored text, with the quote marked and in view.

import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { Chunk, SourcePage } from "../api/types";
import { t } from "../i18n";
import { openPage } from "../state/viewer";
import { Blocks } from "./Blocks";
import { bringIntoView } from "./bringIntoView";
import type { Target } from "./pages";
import { piecesOf, readyAll, readyFrom, type Piece } from "./pieces";
import type { Mark } from "./ranges";

interface Props {
  page: SourcePage;
  target: Target;
  /** The level of the page's title: headings of the page stand below it. */
  level: 1 | 2;
}

const NONE: Mark[] = [];

/** Show a page from the target outwards; what is far away is laid out when it comes into view. */
export function TextPage({ page, target, level }: Props) {
  const root = useRef<HTMLDivElement>(null);
  const pieces = useMemo(() => piecesOf(page), [page]);
  const first = Math.max(0, pieces.findIndex((piece) => holds(piece, target.chunkId)));
  useMemo(() => pieces.slice(Math.max(0, first - 1), first + 2).forEach((piece) => (piece.ready.value = true)), [pieces, first]);
  useEffect(() => readyFrom(pieces, first), [pieces, first]);
  useEffect(() => {
    const all = () => readyAll(pieces);
    addEventListener("beforeprint", all);
    return () => removeEventListener("beforeprint", all);
  }, [pieces]);
  useLayoutEffect(() => {
    return root.current && target.chunkId ? show(root.current, target) : undefined;
  }, [page, target]);
  return (
    <div class="viewer-text" ref={root} lang="">
      {pieces.map((piece) => (
        <PieceView
          key={piece.id}
          piece={piece}
          level={level}
          chunkId={holds(piece, target.chunkId) ? target.chunkId : null}
          marks={holds(piece, target.chunkId) ? target.marks : NONE}
        />
      ))}
    </div>
  );
}

function holds(piece: Piece, chunkId: string | null): boolean {
  return chunkId !== null && piece.chunks.some((chunk) => chunk.chunk_id === chunkId);
}

/** Bring the target into view and give it the focus; returns what stops that. */
function show(root: HTMLElement, target: Target): (() => void) | undefined {
  const place = root.querySelector<HTMLElement>("mark.quote") ?? root.querySelector<HTMLElement>(".viewer-passage-target");
  if (!place) return undefined;
  if (target.marks.length) place.focus({ preventScroll: true });
  return bringIntoView(place);
}

interface PieceProps {
  piece: Piece;
  level: number;
  chunkId: string | null;
  marks: Mark[];
}

function PieceView({ piece, level, chunkId, marks }: PieceProps) {
  const { ready, heading, chars, chunks, depth } = piece;
  const Heading = `h${Math.min(6, level + depth)}` as "h2";
  const height = `${Math.max(3, Math.ceil(chars / 60) * 1.9)}rem`;
  return (
    <div class="viewer-piece" id={`piece-${piece.id}`} style={{ containIntrinsicBlockSize: `auto ${height}`, minBlockSize: ready.value ? "" : height }}>
      {heading && (
        <Heading class={`viewer-heading viewer-heading-${Math.min(4, depth)}`} tabIndex={-1} dir="auto">
          {heading.heading}
        </Heading>
      )}
      {ready.value &&
        chunks.map((chunk) => <Passage key={chunk.chunk_id} chunk={chunk} marks={chunk.chunk_id === chunkId ? marks : NONE} target={chunk.chunk_id === chunkId} />)}
    </div>
  );
}

function Passage({ chunk, marks, target }: { chunk: Chunk; marks: Mark[]; target: boolean }) {
  const kinds = ["viewer-passage", target && "viewer-passage-target", chunk.boilerplate && "viewer-boilerplate"];
  return (
    <div class={kinds.filter(Boolean).join(" ")} data-chunk={chunk.chunk_id}>
      {chunk.missing ? <Missing missing={chunk.missing} /> : <Blocks chunk={chunk} marks={marks} />}
    </div>
  );
}

function Missing({ missing }: { missing: NonNullable<Chunk["missing"]> }) {
  return (
    <p class="viewer-missing">
      {t("viewer.missing")}{" "}
      <button type="button" class="viewer-link" onClick={() => openPage(missing.page_id, missing.chunk_id)}>
        <span dir="auto">{missing.title}</span>
      </button>
    </p>
  );
}
