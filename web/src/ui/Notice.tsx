// A message that stands in the page.

import type { ComponentChildren } from "preact";
import { Icon, type IconName } from "./Icon";

interface NoticeProps {
  kind?: "plain" | "caution" | "danger";
  icon?: IconName;
  alert?: boolean;
  children: ComponentChildren;
}

/** Show a message; `alert` has screen readers say it at once. */
export function Notice({ kind = "plain", icon = kind === "plain" ? "info" : "caution", alert = false, children }: NoticeProps) {
  return (
    <div class={`notice notice-${kind}`} {...(alert ? { role: "alert" as const } : {})}>
      <Icon name={icon} />
      <div>{children}</div>
    </div>
  );
}
