// Long work of the server, watched while it goes on: verifying the evidence, judging a policy.
import { renew } from "./live.js";

const figure = (number) => number.toLocaleString("en");

function anchors({ anchors, anchors_checked: checked, ledger_error: error }) {
  if (!anchors) return "No root is anchored yet.";
  if (checked === anchors) return `All ${figure(anchors)} anchors are on the ledger.`;
  return `${figure(anchors - checked)} of ${figure(anchors)} anchors are claimed, not checked${error ? `: ${error}` : ""}.`;
}

function proofs({ proofs, checks }) {
  const word = checks ? `, ${figure(checks)} ${checks === 1 ? "check that rests" : "checks that rest"} on the owner's word` : "";
  return `${figure(proofs)} ${proofs === 1 ? "proof" : "proofs"} checked again${word}.`;
}

const SENTENCES = {
  progress: ({ leaves, size, episodes, of }) =>
    size === undefined
      ? [episodes / of, `${figure(episodes)} of ${figure(of)} simulated holdings`]
      : [size ? leaves / size : 1, `${figure(leaves)} of ${figure(size)} leaves`],
  report: ({ fine, findings, ...checked }) =>
    fine
      ? ["is-good", `Everything fits: no leaf was changed, left out or put in later. ${proofs(checked)} ${anchors(checked)}`, []]
      : ["is-bad", "Something does not fit:", findings],
  verdict: ({ passed }) => ["", passed ? "Every check held." : "Not every check held.", []],
  failed: ({ reason }) => ["is-bad", `It could not be done: ${reason}.`, []],
};

function line(finding) {
  const item = document.createElement("li");
  item.textContent = Object.values(finding).join(": ");
  return item;
}

function watch(place) {
  const [button, shown, bar, words, list] = ["button", "div", "progress", ".words", "ul"].map((selector) =>
    place.querySelector(selector),
  );
  button.disabled = true;
  shown.hidden = false;
  shown.className = "";
  words.textContent = "It begins.";
  list.replaceChildren();
  bar.removeAttribute("value");
  const events = new EventSource(place.dataset.watch);
  const end = (kind, sentence, findings) => {
    events.close();
    shown.className = kind;
    words.textContent = sentence;
    list.replaceChildren(...findings.map(line));
    bar.value = 1;
    button.disabled = false;
    renew();
  };
  events.addEventListener("progress", (event) => {
    [bar.value, words.textContent] = SENTENCES.progress(JSON.parse(event.data));
  });
  for (const name of ["report", "verdict", "failed"]) {
    events.addEventListener(name, (event) => end(...SENTENCES[name](JSON.parse(event.data))));
  }
  events.addEventListener("error", () => end("is-bad", "It was cut off, or someone else is at it.", []));
}

export function watchOnDemand() {
  for (const place of document.querySelectorAll("[data-watch]")) {
    place.querySelector("button").addEventListener("click", () => watch(place));
  }
}
