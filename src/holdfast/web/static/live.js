// Keeps a page fresh: when the server tells of news, the page is asked for again, and those of its
// parts that differ are put in place. The server alone writes markup, and escapes every name in it.

const PAUSE = 400; // ms: audits come in swarms
const MINUTE = 60_000; // words such as "3 min ago" grow old by themselves
const PENDING = 2_000;

let waiting = null;
let asking = false;

function soon(delay) {
  waiting ??= setTimeout(() => {
    waiting = null;
    renew();
  }, delay);
}

export async function renew(address = location.href) {
  if (asking) return soon(PAUSE);
  asking = true;
  try {
    const answer = await fetch(address, { headers: { accept: "text/html" } });
    if (answer.ok) place(new DOMParser().parseFromString(await answer.text(), "text/html"));
    tell(answer.ok ? "live" : "out of reach");
  } catch {
    tell("out of reach");
  } finally {
    asking = false;
  }
  if (document.querySelector("[data-pending]")) soon(PENDING);
}

function place(fresh) {
  for (const old of document.querySelectorAll("[data-live]")) {
    const found = fresh.getElementById(old.id);
    if (!found || old.isEqualNode(found)) continue;
    // What someone has in hand stays, once it is whole.
    if (old.dataset.live === "until-whole" && !("pending" in old.dataset)) continue;
    const opened = [...old.querySelectorAll("details[open][id]")].map((each) => each.id);
    const focus = old.contains(document.activeElement) ? like(document.activeElement) : null;
    const node = document.importNode(found, true);
    for (const id of opened) node.querySelector(`#${CSS.escape(id)}`)?.setAttribute("open", "");
    old.replaceWith(node);
    if (focus) node.querySelector(focus)?.focus({ preventScroll: true });
  }
}

// How the element that has the focus is found again.
function like(element) {
  if (element.id) return `#${CSS.escape(element.id)}`;
  for (const name of ["href", "data-order"]) {
    const value = element.getAttribute(name);
    if (value) return `[${name}="${CSS.escape(value)}"]`;
  }
  const owner = element.closest("[id]");
  return owner ? `#${CSS.escape(owner.id)} > ${element.localName}` : null;
}

function tell(words) {
  document.getElementById("live").hidden = false;
  document.getElementById("live").dataset.state = words;
  document.getElementById("live-words").textContent = words;
}

export function keepFresh() {
  if (!document.querySelector("[data-live]")) return;
  const events = new EventSource("/api/v1/events");
  let first = true;
  events.addEventListener("open", () => {
    tell("live");
    if (!first) soon(0); // what came while nobody listened
    first = false;
  });
  events.addEventListener("error", () => tell("out of reach"));
  for (const name of ["leaf", "head", "alerts"]) {
    events.addEventListener(name, () => soon(PAUSE));
  }
  addEventListener("pagehide", () => events.close());
  setInterval(() => document.hidden || soon(0), MINUTE);
  if (document.querySelector("[data-pending]")) soon(PENDING);
}
