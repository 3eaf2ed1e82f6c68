// What waits until it is seen.

const waiting = new WeakMap<Element, () => void>();

const observer = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) if (isIntersecting) waiting.get(target)?.();
});

/** Call `act` whenever an element comes into the window; return what ends that. */
export function whenSeen(element: Element, act: () => void): () => void {
  waiting.set(element, act);
  observer.observe(element);
  return () => {
    waiting.delete(element);
    observer.unobserve(element);
  };
}
