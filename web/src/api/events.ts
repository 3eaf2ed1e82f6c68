// Server-sent events of a fetched response: https://html.spec.whatwg.org/multipage/server-sent-events.html

export interface ServerEvent {
  name: string;
  data: unknown;
}

/** Yield the events of a response as they come. Ends with the response; data is JSON. */
export async function* eventsOf(response: Response): AsyncGenerator<ServerEvent> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let unread = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      unread += value;
      let end: number;
      while ((end = unread.indexOf("\n\n")) >= 0) {
        const event = eventOf(unread.slice(0, end));
        unread = unread.slice(end + 2);
        if (event) yield event;
      }
    }
  } finally {
    void reader.cancel().catch(() => undefined);
  }
}

function eventOf(block: string): ServerEvent | null {
  let name = "message";
  const data: string[] = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("event:")) name = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(5).trimStart());
  }
  return data.length ? { name, data: JSON.parse(data.join("\n")) } : null;
}
