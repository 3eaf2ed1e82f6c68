// Where two texts differ, in words.

const MOST = 1_000_000; // pairs of words that are compared

/** Return a text in pieces, each with whether it is a word that the other text doesn't have at its place. */
export function differences(text: string, other: string): [piece: string, differs: boolean][] {
  const pieces = text.split(/(\s+)/);
  const [own, theirs] = [pieces.map(bare), other.split(/\s+/).map(bare).filter(Boolean)];
  const width = theirs.length + 1;
  if (own.length * width > MOST) return [[text, false]];
  const common = new Uint32Array((own.length + 1) * width); // longest common subsequences of what is left of both
  for (let at = own.length * width - 2; at >= 0; at--) {
    const j = at % width;
    if (j === theirs.length) continue;
    const isSame = own[(at - j) / width] === theirs[j];
    common[at] = isSame ? common[at + width + 1]! + 1 : Math.max(common[at + width]!, common[at + 1]!);
  }
  let j = 0;
  return pieces.map((piece, i) => {
    while (j < theirs.length && own[i] !== theirs[j] && common[i * width + j] === common[i * width + j + 1]) j++;
    const differs = own[i] !== theirs[j];
    if (!differs) j++;
    return [piece, differs && own[i] !== ""];
  });
}

/** Return a word without case, markup and the punctuation around it. */
function bare(word: string): string {
  return word.toLowerCase().replace(/^[`*_|"“”„'‘’()[\]\s]+|[`*_|"“”'‘’()[\].,:;!?\s]+$/g, "");
}
