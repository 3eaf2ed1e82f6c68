// What may be wider than its place: it scrolls sideways, and says so where it does.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { t } from "../i18n";

/** Show a table that scrolls, with a line above it and a faded edge while there is more to see. */
export function Wide({ class: name, label, children }: { class: string; label: string; children: ComponentChildren }) {
  const box = useRef<HTMLDivElement>(null);
  const [isWide, setWide] = useState(false);
  const [hasMore, setMore] = useState(false);
  useEffect(() => {
    const shown = box.current!;
    const look = () => {
      const hidden = shown.scrollWidth - shown.clientWidth;
      setWide(hidden > 1);
      setMore(hidden - Math.abs(shown.scrollLeft) > 1);
    };
    const sizes = new ResizeObserver(look);
    sizes.observe(shown);
    if (shown.firstElementChild) sizes.observe(shown.firstElementChild);
    shown.addEventListener("scroll", look, { passive: true });
    return () => {
      sizes.disconnect();
      shown.removeEventListener("scroll", look);
    };
  }, []);
  return (
    <>
      {isWide && <p class="wide-hint">{t("table.wide")}</p>}
      <div ref={box} class={`wide ${name}`} data-more={hasMore} tabIndex={0} role="group" aria-label={label}>
        {children}
      </div>
    </>
  );
}
