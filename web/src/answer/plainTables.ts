// The text of a passage without the bars of its tables, where it is shown in a line: cells are parted by dots instead.

const ROW = /^ {0,3}\|.*$/gm;
const RULE = /^[ :|-]+$/;
const BAR = /(?<!\\)\|/g;
/** Stands for a character that is not shown: offsets into the text stay what they are. */
const GONE = "\u0000";

/** Return the text with `|` between cells as `·`, and a sign that `shown` removes for every other part of a table's markup. */
export function withoutBars(text: string): string {
  return text.replace(ROW, (row) => {
    if (RULE.test(row)) return GONE.repeat(row.length);
    const first = row.indexOf("|");
    const last = row.trimEnd().length - 1;
    return row.replace(BAR, (_, at: number) => (at === first || at === last ? GONE : "·")).replaceAll("\\|", `${GONE}|`);
  });
}

/** Return a part of such a text as it is shown. */
export function shown(part: string): string {
  return part.replace(/^\0+(?:\n|$)/gm, "").replace(/\0 ?/g, "");
}
