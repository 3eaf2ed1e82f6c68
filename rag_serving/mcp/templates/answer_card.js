"use strict";
// The card of an answer in a chat: a view of MCP Apps (SEP-1865). All text is set as text, never as markup.
(() => {
  const VERSION = "2026-01-26";
  const card = document.getElementById("card");
  const root = document.documentElement;
  const waiting = new Map();
  let next = 1;
  let host = {};
  let question = "";

  const post = (message) => window.parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
  const notify = (method, params = {}) => post({ method, params });
  const request = (method, params) =>
    new Promise((resolve, reject) => {
      const id = next++;
      waiting.set(id, { resolve, reject });
      post({ id, method, params });
    });

  function make(tag, given = {}, ...children) {
    const element = document.createElement(tag);
    if (/^(?:h1|p|li|blockquote|td|th)$/.test(tag)) element.dir = "auto";
    for (const [name, value] of Object.entries(given)) {
      if (name === "text") element.textContent = visible(value);
      else if (name === "on") element.addEventListener("click", value);
      else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
    }
    element.append(...children.filter((child) => child !== null));
    return element;
  }

  // Characters that reorder what stands beside them, and others that nobody sees.
  const visible = (value) =>
    String(value ?? "").replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\u{e0000}-\u{e007f}]/gu, "");

  const PATHS = {
    check: "M20 6 9 17l-5-5",
    near: "M5 9c4-4 6 4 10 0l4-3M5 18c4-4 6 4 10 0l4-3",
    out: "M15 3h6v6M10 14 21 3M18 13v6a2 2 0 0 1-2 2H5a2 2 0 0 1-2-2V8a2 2 0 0 1 2-2h6",
    seal: "M12 3l7 3v5c0 5-3 8-7 10-4-2-7-5-7-10V6z",
    ask: "M12 17h.01M9.2 9a3 3 0 1 1 4.2 2.8c-.9.5-1.4 1-1.4 2.2",
  };
  function icon(name) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", "0 0 24 24");
    svg.setAttribute("aria-hidden", "true");
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("d", PATHS[name]);
    svg.append(path);
    return svg;
  }

  function address(value) {
    try {
      const url = new URL(String(value));
      return url.protocol === "https:" || url.protocol === "http:" ? url.href : null;
    } catch {
      return null;
    }
  }
  function link(value, given, ...children) {
    const href = address(value);
    if (!href) return make("span", given, ...children);
    const open = (event) => {
      if (!host.openLinks) return;
      event.preventDefault();
      request("ui/open-link", { url: href }).catch(() => {});
    };
    return make("a", { ...given, href, target: "_blank", rel: "noopener noreferrer", on: open }, ...children);
  }

  // A line's text with `code` and the numbers of its citations.
  function inline(text, numbers) {
    const parts = [];
    for (const piece of visible(text).split(/(`[^`\n]+`|\[\d{1,3}\])/)) {
      const number = /^\[(\d{1,3})\]$/.exec(piece);
      if (number && numbers.has(Number(number[1]))) parts.push(marker(Number(number[1])));
      else if (/^`[^`\n]+`$/.test(piece)) parts.push(make("code", { text: piece.slice(1, -1) }));
      else if (piece) parts.push(document.createTextNode(piece.replace(/\*\*(\S(?:.*?\S)?)\*\*/g, "$1")));
    }
    return parts;
  }
  function marker(number) {
    const light = (on) => (event) => document.getElementById(`source-${number}`)?.classList.toggle("lit", on);
    const show = (event) => {
      event.preventDefault();
      const source = document.getElementById(`source-${number}`);
      source?.scrollIntoView({ block: "nearest" });
      source?.querySelector("a")?.focus({ preventScroll: true });
    };
    const element = make("a", { class: "number", href: `#source-${number}`, "aria-label": `Source ${number}`, on: show, text: number });
    element.addEventListener("pointerenter", light(true));
    element.addEventListener("pointerleave", light(false));
    element.addEventListener("focus", light(true));
    element.addEventListener("blur", light(false));
    return element;
  }

  // Blocks of an answer: code between fences, tables, lists, paragraphs.
  function blocks(text, numbers) {
    const made = [];
    const lines = visible(text).split("\n");
    let at = 0;
    const take = (test) => {
      const taken = [];
      while (at < lines.length && test(lines[at])) taken.push(lines[at++]);
      return taken;
    };
    const isRow = (line) => /^\s*\|.*\|/.test(line);
    const isItem = (line) => /^\s*(?:[-*•]|\d{1,3}[.)])\s+\S/.test(line);
    while (at < lines.length) {
      const fence = /^\s*(`{3,}|~{3,})/.exec(lines[at]);
      if (fence) {
        at++;
        const code = take((line) => !line.trimStart().startsWith(fence[1]));
        at++;
        made.push(make("pre", { tabindex: 0, text: code.join("\n") }));
      } else if (isRow(lines[at])) made.push(tableOf(take(isRow), numbers));
      else if (isItem(lines[at])) {
        const items = take((line) => isItem(line) || (line.trim() && /^\s{2,}/.test(line)));
        const tag = /^\s*\d/.test(items[0]) ? "ol" : "ul";
        made.push(make(tag, {}, ...items.map((line) => make("li", {}, ...inline(line.replace(/^\s*(?:[-*•]|\d{1,3}[.)])\s+/, ""), numbers)))));
      } else if (!lines[at].trim()) at++;
      else {
        const paragraph = take((line) => line.trim() && !isRow(line) && !isItem(line) && !/^\s*(`{3,}|~{3,})/.test(line));
        const marks = made.length > 0 && /^(?:\s*\[\d{1,3}\])+\s*$/.test(paragraph.join(" "));
        made.push(make("p", { class: marks ? "marks" : null }, ...inline(paragraph.join(" "), numbers)));
      }
    }
    return made;
  }
  function tableOf(rows, numbers) {
    const cells = (row) => row.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
    const body = rows.filter((row) => !/^[\s|:-]+$/.test(row));
    const hasHead = rows.length > 1 && /^[\s|:-]+$/.test(rows[1]);
    const lines = body.map((row, place) => {
      const tag = hasHead && place === 0 ? "th" : "td";
      return make("tr", {}, ...cells(row).map((cell) => make(tag, {}, ...inline(cell, numbers))));
    });
    return make("div", { class: "scroll", tabindex: 0 }, make("table", {}, ...lines));
  }

  const MARKS = {
    exact: ["exact", "check", "word for word in the page"],
    fuzzy: ["near", "near", "nearly word for word: numbers and negations the same"],
    swapped: ["near", "near", "found in this passage instead of the one named"],
  };
  const FLAGS = {
    stale_generation: "a newer version of the pages is being opened",
    history_not_used: "earlier turns were not read",
    closest_passage: "the closest passages; no confident answer",
  };

  function sourceOf(number, quotes) {
    const first = quotes[0];
    const path = (Array.isArray(first.heading_path) && first.heading_path.length ? first.heading_path : [first.title]).map(visible);
    const [kind, mark, words] = MARKS[first.verification] ?? ["near", "near", visible(first.verification)];
    const date = /^\d{4}-\d{2}-\d{2}/.exec(first.updated_at ?? "");
    const facts = make(
      "div", { class: "facts" },
      make("span", { class: kind }, icon(mark), make("span", { text: words })),
      first.space ? make("span", { text: first.space }) : null,
      make("span", { text: `version ${first.page_version}` }),
      date ? make("span", { text: date[0] }) : null,
      first.page ? make("span", { text: `page ${first.page}` }) : null,
    );
    const also = (first.also_at ?? []).slice(0, 5).map((place) =>
      make("div", { class: "under" }, document.createTextNode("also at "), link(place.url, { text: place.title })));
    const where = make(
      "div", { class: "where" },
      link(first.fragment_url || first.url, { class: "path", text: path[path.length - 1] }),
      path.length > 1 ? make("div", { class: "under", text: path.slice(0, -1).join(" › ") }) : null,
    );
    const said = quotes.map((one) => make("blockquote", {}, make("mark", { text: `“${visible(one.quote)}”` })));
    return make("li", { class: "source", id: `source-${number}` }, make("span", { class: "number", text: number }), where, ...said, facts, ...also);
  }

  // What to ask or open instead; a question goes into the chat, in the person's name and by the person's click.
  function optionsOf(clarification) {
    const options = Array.isArray(clarification?.options) ? clarification.options.slice(0, 8) : [];
    if (!options.length) return "";
    const send = (text) => () => request("ui/message", { role: "user", content: [{ type: "text", text }] }).catch(() => {});
    const shown = options.map(({ label, query, url }) =>
      query ? make("button", { type: "button", text: label, on: send(visible(query)) }) : link(url, { class: "option", text: label }));
    return make("div", { class: "options" }, ...shown);
  }

  function badge(answer) {
    if (answer.outcome === "told") return make("span", { class: "badge good" }, icon("check"), make("span", { text: "Quotes verified" }));
    if (answer.outcome === "closest") return make("span", { class: "badge warn" }, icon("near"), make("span", { text: "Closest passages" }));
    return make("span", { class: "badge" }, icon("ask"), make("span", { text: "No answer in the pages" }));
  }

  function verifyButton(receipt) {
    const words = make("span", { text: "Verify now" });
    const button = make("button", { type: "button", title: `Receipt ${receipt}` }, icon("seal"), words);
    button.addEventListener("click", async () => {
      button.disabled = true;
      words.textContent = "Checking…";
      try {
        const result = await request("tools/call", { name: "verify_receipt", arguments: { receipt_id: receipt } });
        const proof = result.structuredContent ?? {};
        const holds = !result.isError && proof.valid === true;
        const moved = (proof.changes ?? []).length;
        words.textContent = holds ? (moved ? `Holds; ${moved} page changes since` : "Receipt holds") : "Could not be verified";
        button.className = holds ? "good" : "warn";
      } catch {
        words.textContent = "Could not be checked";
        button.className = "warn";
        button.disabled = false;
      }
    });
    return button;
  }

  function show(answer) {
    const citations = Array.isArray(answer.citations) ? answer.citations : [];
    const byNumber = new Map();
    for (const one of citations) byNumber.set(one.index, [...(byNumber.get(one.index) ?? []), one]);
    const asked = visible(answer.question || question);
    const body = make("div", { class: "answer" }, ...blocks(answer.answer, byNumber));
    const flags = (answer.flags ?? []).map((flag) => FLAGS[flag] ?? visible(flag).replaceAll("_", " "));
    const quotes = citations.length === 1 ? "1 quote, found in its page by a program" : `${citations.length} quotes, each found in its page by a program`;
    const about = citations.length ? quotes : "Nothing is shown that no page carries";
    card.replaceChildren(
      make("header", {}, make("h1", { text: asked }), badge(answer)),
      answer.understood ? make("p", { class: "note", text: `Read as: ${visible(answer.understood)}` }) : "",
      body,
      answer.clarification && answer.clarification.text !== answer.answer ? make("p", { class: "note", text: answer.clarification.text }) : "",
      optionsOf(answer.clarification),
      byNumber.size ? make("h2", { text: "Sources" }) : "",
      byNumber.size ? make("ol", { class: "sources" }, ...[...byNumber].map(([number, quoted]) => sourceOf(number, quoted))) : "",
      make("footer", {},
        make("span", { text: [about, ...flags].join(" · ") }),
        answer.receipt_id && host.serverTools ? verifyButton(visible(answer.receipt_id)) : null),
    );
  }
  function tell(message) {
    card.replaceChildren(make("header", {}, make("h1", { text: question || "No answer" }), make("span", { class: "badge", text: "No answer" })), make("p", { class: "note", text: message }));
  }

  function dress(context) {
    if (!context) return;
    if (context.theme === "dark" || context.theme === "light") root.dataset.theme = context.theme;
    for (const [name, value] of Object.entries(context.styles?.variables ?? {}))
      if (/^--[a-z0-9-]+$/.test(name) && typeof value === "string" && !/url\(|image\(/i.test(value)) root.style.setProperty(name, value);
  }

  const heard = {
    "ui/notifications/tool-input": (params) => {
      question = visible(params.arguments?.question);
    },
    "ui/notifications/tool-result": (params) => {
      if (params.isError || !params.structuredContent) tell((params.content ?? []).map((part) => part.text ?? "").join("\n"));
      else show(params.structuredContent);
    },
    "ui/notifications/tool-cancelled": () => tell("The question was stopped."),
    "ui/notifications/host-context-changed": dress,
  };

  window.addEventListener("message", (event) => {
    const message = event.data;
    if (event.source !== window.parent || !message || message.jsonrpc !== "2.0") return;
    if (message.method === undefined) {
      const asked = waiting.get(message.id);
      waiting.delete(message.id);
      if (asked) message.error ? asked.reject(new Error(message.error.message)) : asked.resolve(message.result ?? {});
    } else if (message.method === "ui/resource-teardown" || message.method === "ping") post({ id: message.id, result: {} });
    else heard[message.method]?.(message.params ?? {});
  });

  let height = 0;
  new ResizeObserver(() => {
    const now = Math.ceil(root.getBoundingClientRect().height);
    if (now !== height) notify("ui/notifications/size-changed", { width: Math.ceil(root.clientWidth), height: (height = now) });
  }).observe(root);

  request("ui/initialize", { protocolVersion: VERSION, appInfo: { name: "citelock-answer", version: "1" }, appCapabilities: { availableDisplayModes: ["inline"] } })
    .then((result) => {
      host = result.hostCapabilities ?? {};
      dress(result.hostContext);
      notify("ui/notifications/initialized");
    })
    .catch(() => {});
})();
