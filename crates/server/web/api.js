// Requests of the page to the service.

const KEPT = "evertally-token";

/** The token of this tab; it is deleted when the tab is closed. */
export const token = {
  get: () => sessionStorage.getItem(KEPT),
  set: (text) => sessionStorage.setItem(KEPT, text),
  forget: () => sessionStorage.removeItem(KEPT),
};

/** An error, in the words of the service. */
export class Problem extends Error {
  constructor(status, document, retryAfter = null) {
    const rows = (document.errors ?? []).map((e) => `${e.row ? `row ${e.row}: ` : ""}${e.problem}`);
    super([document.detail ?? document.title ?? `status ${status}`, ...rows].join("\n"));
    this.status = status;
    this.retryAfter = retryAfter; // seconds, if the service says when it can answer
  }
}

async function answer(path, { method = "GET", body, signal, headers = {} } = {}) {
  const secret = token.get();
  const response = await fetch(path, {
    method,
    signal,
    credentials: "omit",
    headers: {
      ...headers,
      ...(secret ? { authorization: `Bearer ${secret}` } : {}),
      ...(body === undefined ? {} : { "content-type": "application/json" }),
    },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (response.ok) return response;
  const document = await response.json().catch(() => ({}));
  const seconds = Number(response.headers.get("retry-after"));
  throw new Problem(response.status, document, seconds > 0 ? seconds : null);
}

export const stream = (name) => `/v1/streams/${encodeURIComponent(name)}`;
export const json = async (path, how) => (await answer(path, how)).json();
export const text = async (path, how) => (await answer(path, how)).text();
export const blob = async (path, how) => (await answer(path, how)).blob();

/** Whether this listener answers operators. */
export const isOperators = async () => (await json("/v1/streams")).operated;

/** Publications after `behind`: `{event, id, data}`. Reconnects if the connection is lost. */
export async function* watch(name, behind, signal, lost) {
  let last = behind;
  for (let wait = 1000; !signal.aborted; wait = Math.min(2 * wait, 30000)) {
    try {
      const headers = { accept: "text/event-stream", ...(last === null ? {} : { "last-event-id": String(last) }) };
      const response = await answer(`${stream(name)}/watch`, { signal, headers });
      lost(false);
      wait = 500;
      for await (const message of messages(response.body)) {
        if (message.id !== null) last = Number(message.id);
        yield message;
      }
    } catch (problem) {
      if (signal.aborted) return;
      if (problem instanceof Problem && problem.status === 404) throw problem;
    }
    lost(true);
    await new Promise((over) => setTimeout(over, wait * (0.5 + Math.random())));
  }
}

/** The messages in a body of server-sent events. */
async function* messages(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    const whole = rest.split("\n\n");
    rest = whole.pop();
    for (const block of whole) {
      const message = { event: "message", id: null, data: "" };
      for (const line of block.split("\n")) {
        const at = line.indexOf(":");
        if (at > 0) message[line.slice(0, at)] = line.slice(at + 1).trimStart();
      }
      if (message.data) yield { ...message, data: JSON.parse(message.data) };
    }
  }
}
