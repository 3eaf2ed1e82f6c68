// What is quoted of an answer, marked where it stands in it: by ranges, so that the text stays as it is.

import { useEffect, useRef } from "preact/hooks";
import type { Citation } from "../api/types";

const NAME = "quoted";
const LETTER = /[\p{L}\p{N}]/u;

/** Return a reference for the element with the text: the quotes in it are marked while it is shown. */
export function useMarked(text: string, citations: Citation[]) {
  const element = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!element.current || typeof Highlight === "undefined") return;
    const marked = CSS.highlights.get(NAME) ?? new Highlight();
    const ranges = rangesOf(element.current, citations.map(({ quote }) => quote));
    ranges.forEach((range) => marked.add(range));
    CSS.highlights.set(NAME, marked);
    return () => ranges.forEach((range) => marked.delete(range));
  }, [text, citations]);
  return element;
}

/** Return the first place of each quote; what is no letter and no digit is not compared: marks of markup, bars, space. */
function rangesOf(element: HTMLElement, quotes: string[]): Range[] {
  const places: [Text, number, number][] = [];
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  let letters = "";
  while (walker.nextNode()) {
    const node = walker.currentNode as Text;
    if (node.parentElement?.closest("button")) continue;
    let at = 0;
    for (const letter of node.data) {
      if (LETTER.test(letter)) {
        letters += letter;
        for (let unit = 0; unit < letter.length; unit++) places.push([node, at, at + letter.length]);
      }
      at += letter.length;
    }
  }
  return quotes.flatMap((quote) => {
    const wanted = [...quote].filter((letter) => LETTER.test(letter)).join("");
    const from = wanted ? letters.indexOf(wanted) : -1;
    if (from < 0) return [];
    const range = new Range();
    range.setStart(places[from]![0], places[from]![1]);
    const [node, , end] = places[from + wanted.length - 1]!;
    range.setEnd(node, end);
    return [range];
  });
}
