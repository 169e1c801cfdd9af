// The event stream of a browser: a SharedWorker that holds one stream for all open pages.
// A browser keeps six connections to a server, so with a stream per page the seventh would wait.

const RETRY_DELAY = 5_000; // ms, after the server has refused the stream

const pages = new Set();
let started = false;
let state = null; // what pages show: "live" or "out of reach"
let newest = 0; // when the last event came, in ms since 1970

function publish() {
  for (const page of pages) page.postMessage({ state, newest });
}

// The server begins every stream with its present state, so pages catch up after an outage.
function open() {
  const events = new EventSource("/api/v1/events");
  events.addEventListener("open", () => {
    state = "live";
    publish();
  });
  events.addEventListener("error", () => {
    state = "out of reach";
    publish();
    // A browser reconnects by itself unless the server has refused the stream.
    if (events.readyState === EventSource.CLOSED) setTimeout(open, RETRY_DELAY);
  });
  for (const name of ["leaf", "head", "alerts"]) {
    events.addEventListener(name, () => {
      newest = Date.now();
      publish();
    });
  }
}

addEventListener("connect", ({ ports: [page] }) => {
  pages.add(page);
  page.onmessage = () => pages.delete(page); // a page says only that it goes
  page.postMessage({ state, newest });
  if (!started) open();
  started = true;
});
