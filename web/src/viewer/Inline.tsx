// Text with emphasis, links, code and the quote's mark.

import { ExternalLink } from "./ExternalLink";
import { inlineParts, type Branch, type Layers, type Leaf, type Mark } from "./ranges";

interface Props extends Layers {
  text: string;
  start: number;
  end: number;
}

/** Show the characters [start, end) of a passage's text. */
export function Inline({ text, start, end, ...layers }: Props) {
  return <>{inlineParts(start, end, layers).map((part) => show(part, text))}</>;
}

function show(part: Leaf | Branch, text: string) {
  if (!("run" in part)) {
    const words = text.slice(part.start, part.end);
    return part.mark ? <Marked mark={part.mark} at={part.start} words={words} /> : words;
  }
  const inner = part.inner.map((each) => show(each, text));
  switch (part.run.style) {
    case "strong":
      return <strong>{inner}</strong>;
    case "em":
      return <em>{inner}</em>;
    case "code":
      return <code>{inner}</code>;
    case "link":
      return <ExternalLink href={part.run.href}>{inner}</ExternalLink>;
  }
}

/** A quote may be marked in several elements; the first can take the focus, for readers who hear the page. */
function Marked({ mark, at, words }: { mark: Mark; at: number; words: string }) {
  const first = at <= mark.start;
  return (
    <mark class="quote" data-index={mark.index} {...(first ? { tabIndex: -1 } : {})}>
      {words}
    </mark>
  );
}
