// Drawings of one line each, in a field of 24 by 24.

const paths = {
  ask: "M5 12h13m-6-6 6 6-6 6",
  stop: "M7 7h10v10H7z",
  retry: "M4 12a8 8 0 1 0 2.6-5.9M4 4v4h4",
  check: "m5 12.5 4.5 4.5L19 7.5",
  verified: "M12 3l2.3 1.7 2.8-.1.8 2.7 2.3 1.7-.9 2.7.9 2.7-2.3 1.7-.8 2.7-2.8-.1L12 20.4l-2.3-1.7-2.8.1-.8-2.7-2.3-1.7.9-2.7-.9-2.7 2.3-1.7.8-2.7 2.8.1zM8.5 12l2.5 2.5 4.5-5",
  close: "m6 6 12 12M18 6 6 18",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  share: "M12 15V4m-4 4 4-4 4 4M5 12v8h14v-8",
  link: "M10 14a4 4 0 0 0 6 .5l3-3a4 4 0 0 0-5.700-5.700l-1.300 1.300M14 10a4 4 0 0 0-6-.5l-3 3a4 4 0 0 0 5.700 5.700l1.300-1.300",
  external: "M14 4h6v6M20 4l-9 9M18 14v6H4V6h6",
  up: "M7 11v9H4v-9zm0 0 4-7c1.500 0 2.500 1 2.500 2.500L13 10h5.500a2 2 0 0 1 2 2.400l-1.200 6a2 2 0 0 1-2 1.600H7",
  down: "M17 13V4h3v9zm0 0-4 7c-1.500 0-2.500-1-2.500-2.500L11 14H5.500a2 2 0 0 1-2-2.400l1.200-6a2 2 0 0 1 2-1.600H17",
  flag: "M5 21V4h12l-2.500 4L17 12H5",
  history: "M4 12a8 8 0 1 0 2.600-5.900M4 4v4h4M12 8v4.500l3 1.800",
  menu: "M4 7h16M4 12h16M4 17h16",
  filter: "M4 6h16M7 12h10M10 18h4",
  caution: "M12 4 2.500 20h19zM12 10v4.500M12 17.200v.1",
  info: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18M12 11v5.500M12 7.700v.1",
  none: "M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14M16.200 16.200 21 21M8.500 11h5",
  near: "M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14M16.200 16.200 21 21",
  page: "M6 3h8l4 4v14H6zM14 3v4h4M9 12h6M9 16h6",
  person: "M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8M4.500 20a7.500 7.500 0 0 1 15 0",
  plus: "M12 5v14M5 12h14",
  edit: "M4 20h4L20 8l-4-4L4 16z",
  trash: "M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13",
  next: "m9 5 7 7-7 7",
  previous: "m15 5-7 7 7 7",
  open: "m6 9 6 6 6-6",
  upload: "M12 16V5m-4 4 4-4 4 4M4 16v4h16v-4",
  keyboard: "M3 6h18v12H3zM7 10h.1M11 10h.1M15 10h.1M8 14h8",
} as const;

export type IconName = keyof typeof paths;

/** Drawings that point along the line of text: they are mirrored where text runs from right to left. */
const directed = new Set<IconName>(["ask", "next", "previous"]);

/** Show a drawing; the words beside it say what it means. */
export function Icon({ name }: { name: IconName }) {
  return (
    <svg class={directed.has(name) ? "icon icon-directed" : "icon"} viewBox="0 0 24 24" aria-hidden="true">
      <path d={paths[name]} />
    </svg>
  );
}
