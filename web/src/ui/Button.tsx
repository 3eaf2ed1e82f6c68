// Buttons.

import type { ComponentChildren, JSX } from "preact";
import { Icon, type IconName } from "./Icon";

export interface ButtonProps extends Omit<JSX.IntrinsicElements["button"], "icon" | "label" | "class"> {
  kind?: "plain" | "primary" | "quiet" | "danger";
  icon?: IconName;
  /** The words of a button that only shows a drawing. */
  label?: string;
  children?: ComponentChildren;
}

/** Show a button; with `label` and without children it is square and shows the drawing alone. */
export function Button({ kind = "plain", icon, label, children, type = "button", ...rest }: ButtonProps) {
  const shape = children === undefined ? " button-square" : "";
  return (
    <button {...rest} type={type} class={`button button-${kind}${shape}`} aria-label={label} title={label}>
      {icon && <Icon name={icon} />}
      {children}
    </button>
  );
}
