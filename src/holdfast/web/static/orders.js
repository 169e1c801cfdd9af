// Orders are confirmed in a dialogue, posted as JSON, and answered in a sentence.
import { renew } from "./live.js";

const byId = (id) => document.getElementById(id);

export function say(words, bad = false) {
  const toast = byId("toast");
  toast.textContent = words;
  toast.classList.toggle("is-bad", bad);
  toast.classList.add("shown");
  clearTimeout(say.timer);
  say.timer = setTimeout(() => toast.classList.remove("shown"), 8000);
}

function confirmed(button) {
  const dialogue = byId("confirm");
  byId("confirm-title").textContent = button.dataset.title;
  byId("confirm-words").textContent = button.dataset.words;
  byId("confirm-yes").textContent = button.textContent;
  byId("confirm-reason").value = "";
  byId("confirm-force").checked = false;
  byId("confirm-force-line").hidden = !("force" in button.dataset);
  dialogue.returnValue = "";
  dialogue.showModal();
  byId("confirm-reason").focus();
  return new Promise((resolve) =>
    dialogue.addEventListener("close", () => resolve(dialogue.returnValue === "yes"), { once: true }),
  );
}

async function order(button) {
  if (!(await confirmed(button))) return;
  const wish = { reason: byId("confirm-reason").value };
  if ("force" in button.dataset) wish.force = byId("confirm-force").checked;
  button.disabled = true;
  try {
    const answer = await fetch(button.dataset.order, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(wish),
    });
    const result = await answer.json();
    if (answer.ok) say(`Done: ${result.done}.`);
    else say(`Refused: ${result.error.message}.`, true);
  } catch {
    say("The server can't be reached.", true);
  } finally {
    button.disabled = false;
  }
  await renew();
}

export function takeOrders() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-order]");
    if (button) order(button);
  });
  // Enter in the field of the reason means yes, not the first button.
  byId("confirm-reason").addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    byId("confirm").close("yes");
  });
}
