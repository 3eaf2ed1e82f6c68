// Offsets: the server counts characters (code points), the browser halves of surrogate pairs.

/** Return where the n-th character of a text begins in the browser's count. */
export function offsetOf(text: string, characters: number): number {
  let at = 0;
  for (let n = 0; n < characters && at < text.length; n++) at += text.codePointAt(at)! > 0xffff ? 2 : 1;
  return at;
}
