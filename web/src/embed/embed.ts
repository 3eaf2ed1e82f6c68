// A button "Ask about this text" for any site. It is a classic script without dependencies:
// <script src="https://citelock.example/embed.js" defer data-label="Ask about this text"></script>
// The text is handed to the page of this script's origin by postMessage, after that page has said that it is ready; it is
// never part of an address. `document.dispatchEvent(new Event("citelock:remove"))` takes the button away again.

(() => {
  const script = document.currentScript as HTMLScriptElement | null;
  if (!script?.src) return;
  const { origin } = new URL(script.src);
  const host = document.createElement("citelock-ask");
  const root = host.attachShadow({ mode: "closed" });
  const button = document.createElement("button");
  const sheet = new CSSStyleSheet();
  const listening = new AbortController();
  const { signal } = listening;
  const MOST_CHARS = 50_000;
  const WAIT_MS = 60_000;

  sheet.replaceSync(
    `:host{all:initial;position:absolute;z-index:2147483647}:host([hidden]){display:none}` +
      `button{font:500 14px/1.4 system-ui,sans-serif;padding:7px 12px;min-height:32px;border:1px solid #84877f;border-radius:10px;background:#fff;color:#14603a;cursor:pointer;box-shadow:0 4px 16px rgb(0 0 0/20%)}` +
      `button:hover{text-decoration:underline}button:focus-visible{outline:3px solid #0b57d0;outline-offset:2px}` +
      `@media(prefers-color-scheme:dark){button{background:#232825;color:#7fd6a4}button:focus-visible{outline-color:#8ab4ff}}` +
      `@media print{:host{display:none}}`,
  );
  root.adoptedStyleSheets = [sheet];
  button.type = "button";
  button.textContent = script.dataset.label || "Ask about this text";
  root.append(button);
  host.hidden = true;

  function selected(): string {
    return (getSelection()?.toString() ?? "").trim();
  }

  function place(): void {
    const chosen = getSelection();
    const text = selected();
    host.hidden = !text || !chosen?.rangeCount || isTyping();
    if (host.hidden) return;
    const range = chosen!.getRangeAt(0);
    const lines = range.getClientRects();
    const line = lines[lines.length - 1] ?? range.getBoundingClientRect();
    const page = document.documentElement;
    const rtl = getComputedStyle(page).direction === "rtl";
    if (!host.isConnected) document.body.append(host);
    host.dir = rtl ? "rtl" : "ltr";
    const width = button.offsetWidth;
    const at = rtl ? line.left : line.right - width;
    host.style.left = `${Math.max(8, Math.min(at, page.clientWidth - width - 8)) + scrollX}px`;
    host.style.top = `${line.bottom + 8 + scrollY}px`;
  }

  function isTyping(): boolean {
    const at = document.activeElement;
    return at instanceof HTMLInputElement || at instanceof HTMLTextAreaElement || (at as HTMLElement | null)?.isContentEditable === true;
  }

  function handOver(): void {
    const message = {
      type: "citelock:selection",
      text: selected().slice(0, MOST_CHARS),
      title: document.title.slice(0, 300),
      url: location.href.split("#")[0]!.slice(0, 2000),
    };
    const page = open(`${origin}/ask`, "_blank");
    if (!page) return;
    const waiting = new AbortController();
    setTimeout(() => waiting.abort(), WAIT_MS);
    addEventListener(
      "message",
      (event) => {
        if (event.source !== page || event.origin !== origin || event.data?.type !== "citelock:ready") return;
        waiting.abort();
        page.postMessage(message, origin);
      },
      { signal: waiting.signal },
    );
  }

  button.onmousedown = (event) => event.preventDefault();
  button.onclick = handOver;
  document.addEventListener("selectionchange", place, { signal });
  addEventListener("resize", place, { signal });
  document.addEventListener(
    "keydown",
    (event) => {
      if (host.hidden) return;
      if (event.key === "Escape") host.hidden = true;
      if (event.key === "Tab" && !event.shiftKey && document.activeElement === document.body) {
        event.preventDefault();
        button.focus();
      }
    },
    { signal },
  );
  document.addEventListener(
    "citelock:remove",
    () => {
      listening.abort();
      host.remove();
    },
    { signal },
  );
})();
