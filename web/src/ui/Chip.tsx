// Short facts, and choices that can be taken back.

import type { ComponentChildren } from "preact";
import { Icon } from "./Icon";

/** Show a short text in a rounded frame; with `onRemove` a button beside it takes it away. */
export function Chip({ children, remove, onRemove }: { children: ComponentChildren; remove?: string; onRemove?: () => void }) {
  return (
    <span class={onRemove ? "chip chip-removable" : "chip"}>
      <span dir="auto">{children}</span>
      {onRemove && (
        <button type="button" class="chip-remove" aria-label={remove} title={remove} onClick={onRemove}>
          <Icon name="close" />
        </button>
      )}
    </span>
  );
}
