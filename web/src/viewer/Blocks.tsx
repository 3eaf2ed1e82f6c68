// The blocks of a passage: paragraphs, lists, tables, code.

import type { Block, Chunk } from "../api/types";
import { t } from "../i18n";
import { Wide } from "../ui/Wide";
import { Inline } from "./Inline";
import { nested, numberBefore, type Item, type Mark } from "./ranges";

interface Props {
  chunk: Pick<Chunk, "text" | "blocks">;
  marks: Mark[];
}

/** Show a passage's blocks; a text without any as one paragraph. */
export function Blocks({ chunk, marks }: Props) {
  const blocks = chunk.blocks.length ? chunk.blocks : [whole(chunk.text)];
  return <>{blocks.map((block) => shown(block, chunk.text, marks))}</>;
}

function whole(text: string): Block {
  return { kind: "paragraph", start: 0, end: text.length };
}

function shown(block: Block, text: string, marks: Mark[]) {
  const near = marks.filter((mark) => mark.start < block.end && mark.end > block.start);
  const inline = (start: number, end: number) => (
    <Inline text={text} start={start} end={end} runs={block.runs ?? []} hidden={block.hidden ?? []} marks={near} />
  );
  switch (block.kind) {
    case "heading":
      return (
        <p key={block.start} class="viewer-subheading" dir="auto">
          {inline(block.start, block.end)}
        </p>
      );
    case "list":
      return <List block={block} text={text} inline={inline} />;
    case "table":
      return <Table block={block} inline={inline} />;
    case "code":
      return (
        <pre key={block.start} class="viewer-code" dir="ltr" tabIndex={0} role="group" aria-label={codeLabel(block)}>
          <code>{inline(block.start, block.end)}</code>
        </pre>
      );
    default:
      return (
        <p key={block.start} dir="auto">
          {inline(block.start, block.end)}
        </p>
      );
  }
}

type Draw = (start: number, end: number) => preact.JSX.Element;

function codeLabel(block: Block): string {
  return block.language ? t("viewer.code_in", { language: block.language }) : t("viewer.code");
}

function List({ block, text, inline }: { block: Block; text: string; inline: Draw }) {
  const items = nested(block.items ?? [[block.start, block.end, 0]]);
  return listOf(items, block.ordered ?? false, text, inline);
}

function listOf(items: Item[], ordered: boolean, text: string, inline: Draw) {
  const entries = items.map((item) => {
    const value = ordered ? numberBefore(text, item.start) : null;
    return (
      <li key={item.start} dir="auto" {...(value === null ? {} : { value })}>
        {inline(item.start, item.end)}
        {item.inner.length > 0 && listOf(item.inner, numberBefore(text, item.inner[0]!.start) !== null, text, inline)}
      </li>
    );
  });
  return ordered ? <ol>{entries}</ol> : <ul>{entries}</ul>;
}

function Table({ block, inline }: { block: Block; inline: Draw }) {
  const rows = block.rows ?? [];
  const head = rows.filter((row) => row.header);
  const body = rows.filter((row) => !row.header);
  return (
    <Wide class="viewer-table" label={t("viewer.table")}>
      <table>
        {(head.length > 0 || block.header) && (
          <thead>
            {block.header && (
              <tr>
                {block.header.map((words, column) => (
                  <th key={column} scope="col" dir="auto">
                    {words}
                  </th>
                ))}
              </tr>
            )}
            {head.map((row, place) => (
              <tr key={place}>
                {row.cells.map(([start, end], column) => (
                  <th key={column} scope="col" dir="auto">
                    {inline(start, end)}
                  </th>
                ))}
              </tr>
            ))}
          </thead>
        )}
        <tbody>
          {body.map((row, place) => (
            <tr key={place}>
              {row.cells.map(([start, end], column) => (
                <td key={column} dir="auto">
                  {inline(start, end)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </Wide>
  );
}
