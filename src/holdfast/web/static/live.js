// Keeps a page fresh: when something happens, the page is fetched again, and those of its parts that
// differ are replaced. The server alone writes markup, and escapes every name in it.

const PAUSE = 400; // ms: audits come in bursts
const MINUTE = 60_000; // words such as "3 min ago" change by themselves
const PENDING = 2_000; // unless the page names its own seconds
const POLL = 5_000; // where pages can't share a stream

let timer = null;
let due = Infinity; // when the timer ends
let fetching = false;
let stale = false; // news came while the page was hidden
let fetched = performance.timeOrigin; // when this page was last asked for, in ms since 1970

function renewSoon(delay) {
  stale = document.hidden;
  if (stale || due <= Date.now() + delay) return;
  clearTimeout(timer);
  due = Date.now() + delay;
  timer = setTimeout(() => {
    due = Infinity;
    renew();
  }, delay);
}

function renewPending() {
  const pending = document.querySelector("[data-pending]");
  if (pending) renewSoon(1000 * Number(pending.dataset.pending) || PENDING);
}

export async function renew(address = location.href) {
  if (fetching) return renewSoon(PAUSE);
  fetching = true;
  fetched = Date.now();
  try {
    const answer = await fetch(address, { headers: { accept: "text/html" } });
    if (answer.ok) place(new DOMParser().parseFromString(await answer.text(), "text/html"));
    show(answer.ok ? "live" : "out of reach");
  } catch {
    show("out of reach");
  } finally {
    fetching = false;
  }
  renewPending();
}

function place(fresh) {
  for (const old of document.querySelectorAll("[data-live]")) {
    const replacement = fresh.getElementById(old.id);
    if (!replacement || old.isEqualNode(replacement)) continue;
    // What someone is using stays, once it is whole.
    if (old.dataset.live === "until-whole" && !("pending" in old.dataset)) continue;
    const opened = [...old.querySelectorAll("details[open][id]")].map((details) => details.id);
    const focus = old.contains(document.activeElement) ? selector(document.activeElement) : null;
    const node = document.importNode(replacement, true);
    for (const id of opened) node.querySelector(`#${CSS.escape(id)}`)?.setAttribute("open", "");
    old.replaceWith(node);
    if (focus) node.querySelector(focus)?.focus({ preventScroll: true });
  }
}

// Returns the selector by which the element that has the focus is found again.
function selector(element) {
  if (element.id) return `#${CSS.escape(element.id)}`;
  for (const name of ["href", "data-order"]) {
    const value = element.getAttribute(name);
    if (value) return `[${name}="${CSS.escape(value)}"]`;
  }
  const owner = element.closest("[id]");
  return owner ? `#${CSS.escape(owner.id)} > ${element.localName}` : null;
}

function show(words) {
  document.getElementById("live").hidden = false;
  document.getElementById("live").dataset.state = words;
  document.getElementById("live-words").textContent = words;
}

function poll() {
  setInterval(() => renewSoon(0), POLL);
}

function subscribe() {
  let stream;
  try {
    stream = new SharedWorker("/static/stream.js", { name: "holdfast" });
  } catch {
    return poll(); // this browser has none, or its settings forbid it
  }
  stream.addEventListener("error", poll, { once: true });
  stream.port.onmessage = ({ data: { state, newest } }) => {
    if (state) show(state);
    if (newest > fetched) renewSoon(PAUSE);
  };
  addEventListener("pagehide", () => stream.port.postMessage("close"), { once: true });
}

export function keepFresh() {
  if (!document.querySelector("[data-live]")) return;
  subscribe();
  addEventListener("pageshow", (event) => event.persisted && subscribe());
  document.addEventListener("visibilitychange", () => stale && renewSoon(0));
  setInterval(() => renewSoon(0), MINUTE);
  renewPending();
}
