// The text of an answer. Its words come from pages and models: they are only ever text.

import type { ComponentChildren } from "preact";
import type { Citation } from "../api/types";
import { t } from "../i18n";
import { Wide } from "../ui/Wide";
import { blocksOf, type Item, type TextBlock } from "./blocks";
import { CiteButton } from "./CiteButton";
import { useMarked } from "./marking";

interface Props {
  text: string;
  citations: Citation[];
}

/** Show a text with its numbers as buttons and its quotes marked. */
export function AnswerText({ text, citations }: Props) {
  const marked = useMarked(text, citations);
  return (
    <div class="answer-text" ref={marked}>
      {blocksOf(text).map((block, at) => (
        <Block key={at} block={block} citations={citations} />
      ))}
    </div>
  );
}

function Block({ block, citations }: { block: TextBlock; citations: Citation[] }) {
  const inline = (text: string) => <Inline text={text} citations={citations} />;
  switch (block.kind) {
    case "paragraph":
      return <p dir="auto">{inline(block.text)}</p>;
    case "heading":
      return (
        <p dir="auto" class="answer-heading">
          {inline(block.text)}
        </p>
      );
    case "quote":
      return <blockquote dir="auto">{inline(block.text)}</blockquote>;
    case "code":
      return (
        <pre dir="ltr" tabIndex={0}>
          <code>{block.text}</code>
        </pre>
      );
    case "list":
      return block.ordered ? (
        <ol start={block.first} dir="auto">
          {items(block.items, inline)}
        </ol>
      ) : (
        <ul dir="auto">{items(block.items, inline)}</ul>
      );
    case "table":
      return (
        <Wide class="table" label={t("viewer.table")}>
          <table dir="auto">
            {block.head && (
              <thead>
                <tr>
                  {block.head.map((cell, at) => (
                    <th key={at} scope="col" dir="auto">
                      {inline(cell)}
                    </th>
                  ))}
                </tr>
              </thead>
            )}
            <tbody>
              {block.rows.map((row, at) => (
                <tr key={at}>
                  {row.map((cell, column) => (
                    <td key={column} dir="auto">
                      {inline(cell)}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </Wide>
      );
  }
}

function items(list: Item[], inline: (text: string) => ComponentChildren) {
  return list.map(({ text, depth, checked }, at) => (
    <li key={at} class={checked === null ? `depth-${depth}` : `depth-${depth} task`}>
      {checked !== null && <span>{checked ? "☑ " : "☐ "}</span>}
      {inline(text)}
    </li>
  ));
}

const INLINE = /(`{1,3})([^`\n]{1,500})\1|\*\*([^*\n]{1,500})\*\*|(?<![\w\])])\[(\d{1,3})\]|(?<=\[\d{1,3}\])\[(\d{1,3})\]/g;

function Inline({ text, citations }: Props) {
  const parts: ComponentChildren[] = [];
  let from = 0;
  for (const match of text.matchAll(INLINE)) {
    const number = match[4] ?? match[5];
    const cited = number ? citations.filter((citation) => citation.index === Number(number)) : [];
    if (number && !cited.length) continue;
    parts.push(text.slice(from, match.index));
    if (cited.length) parts.push(<CiteButton citations={cited} />);
    else if (match[3]) parts.push(<strong>{match[3]}</strong>);
    else parts.push(<code>{match[2]}</code>);
    from = match.index + match[0].length;
  }
  parts.push(text.slice(from));
  return <>{parts}</>;
}
