// Links out of the page. Addresses come from pages that anybody may have written: only http and https are followed.

import type { ComponentChildren } from "preact";

interface Props {
  href: string | null | undefined;
  class?: string;
  children: ComponentChildren;
}

/** Show a link that opens a new tab; the plain words where the address is none of the web's. */
export function ExternalLink({ href, class: name, children }: Props) {
  const address = webAddress(href);
  if (!address) return <span class={name}>{children}</span>;
  return (
    <a class={name} href={address} target="_blank" rel="noopener noreferrer">
      {children}
    </a>
  );
}

/** Return an absolute http or https address, else null. */
export function webAddress(href: string | null | undefined): string | null {
  if (!href || !/^https?:\/\//i.test(href)) return null;
  return URL.canParse(href) ? href : null;
}
