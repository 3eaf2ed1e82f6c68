// The focus of what has just been shown.

import type { RefObject } from "preact";
import { useEffect, useRef } from "preact/hooks";

/** Return a reference whose element gets the focus when it is shown. */
export function useFocus<Shown extends HTMLElement>(): RefObject<Shown | null> {
  const ref = useRef<Shown>(null);
  useEffect(() => ref.current?.focus(), []);
  return ref;
}
