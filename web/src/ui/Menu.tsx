// A button that opens a list of choices: https://www.w3.org/WAI/ARIA/apg/patterns/menu-button/

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Button } from "./Button";
import { Icon, type IconName } from "./Icon";

interface MenuProps {
  label: string;
  icon: IconName;
  children?: ComponentChildren;
  items: MenuEntry[];
}

export interface MenuEntry {
  text: string;
  icon?: IconName;
  /** Given for one of several: whether it is the chosen one. */
  checked?: boolean;
  act: () => void;
}

/** Show a button whose menu closes with Escape, a choice, or when the focus leaves. */
export function Menu({ label, icon, children, items }: MenuProps) {
  const [shown, setShown] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  const entries = () => [...(root.current?.querySelectorAll<HTMLElement>(".menu-item") ?? [])];
  const button = () => root.current?.querySelector("button");
  useEffect(() => {
    if (shown) entries()[0]?.focus();
  }, [shown]);

  function onKey(event: KeyboardEvent): void {
    if (!shown) return;
    const all = entries();
    const at = all.indexOf(document.activeElement as HTMLElement);
    const steps: Record<string, number> = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 };
    const next = steps[event.key];
    if (next !== undefined) {
      all[(next + all.length) % all.length]?.focus();
      event.preventDefault();
    } else if (event.key === "Escape") {
      setShown(false);
      button()?.focus();
      event.stopPropagation();
    }
  }

  return (
    <div
      class="menu"
      ref={root}
      onKeyDown={onKey}
      onFocusOut={(event) => !root.current?.contains(event.relatedTarget as Node) && setShown(false)}
    >
      <Button
        kind="quiet"
        icon={icon}
        {...(children === undefined ? { label } : { "aria-label": label })}
        aria-haspopup="menu"
        aria-expanded={shown}
        onClick={() => setShown(!shown)}
      >
        {children}
      </Button>
      {shown && (
        <div class="menu-list" role="menu" aria-label={label}>
          {items.map(({ text, icon: drawing, checked, act }) => (
            <button
              key={text}
              type="button"
              class="menu-item"
              tabIndex={-1}
              role={checked === undefined ? "menuitem" : "menuitemradio"}
              {...(checked === undefined ? {} : { "aria-checked": checked })}
              onClick={() => {
                setShown(false);
                button()?.focus();
                act();
              }}
            >
              <span class="menu-icon">{(drawing ?? checked) && <Icon name={drawing ?? "check"} />}</span>
              <span dir="auto">{text}</span>
            </button>
          ))}
        </div>
      )}
    </div>
  );
}
