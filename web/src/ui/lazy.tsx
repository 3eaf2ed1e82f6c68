// Parts of the page that are only fetched when they are shown.

import type { ComponentType, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { t } from "../i18n";
import { Notice } from "./Notice";

/** Return a component that stands for one in a file of its own; where that can't be fetched it says so. */
export function lazy<Props extends object>(fetch: () => Promise<ComponentType<Props>>): ComponentType<Props> {
  let fetched: ComponentType<Props> | null = null;
  return function Lazy(props: Props): JSX.Element | null {
    const [state, setState] = useState<"waiting" | "there" | "failed">(fetched ? "there" : "waiting");
    useEffect(() => {
      if (fetched) return;
      fetch().then(
        (component) => {
          fetched = component;
          setState("there");
        },
        () => setState("failed"),
      );
    }, []);
    if (state === "failed") return <Notice kind="danger">{t("part.failed")}</Notice>;
    const Component = fetched;
    return Component && <Component {...props} />;
  };
}
