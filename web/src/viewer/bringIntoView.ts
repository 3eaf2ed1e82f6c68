// Scrolling to a place whose surroundings are still being laid out.

const MOST_FRAMES = 40;
const STILL_FRAMES = 3;
const BY_THE_READER = ["wheel", "touchstart", "pointerdown", "keydown"] as const;

/** Bring an element to the middle of what scrolls, frame by frame until it stays there, or the reader scrolls. */
export function bringIntoView(element: HTMLElement): () => void {
  let frames = 0;
  let still = 0;
  let last = NaN;
  const stop = new AbortController();
  const look = (): void => {
    if (stop.signal.aborted || !element.isConnected) return;
    element.scrollIntoView({ block: "center", inline: "nearest", behavior: "instant" });
    const { top } = element.getBoundingClientRect();
    still = Math.abs(top - last) < 1 ? still + 1 : 0;
    last = top;
    if (still < STILL_FRAMES && ++frames < MOST_FRAMES) requestAnimationFrame(look);
    else stop.abort();
  };
  for (const name of BY_THE_READER) addEventListener(name, () => stop.abort(), { signal: stop.signal, passive: true });
  look();
  return () => stop.abort();
}
