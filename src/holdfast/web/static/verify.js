// The evidence is verified by the server, and its progress shown as it comes.

const byId = (id) => document.getElementById(id);

function line(words) {
  const item = document.createElement("li");
  item.textContent = words;
  return item;
}

function verify() {
  const button = byId("verify");
  const [words, bar, findings] = [byId("verify-words"), byId("verify-progress"), byId("verify-findings")];
  button.disabled = true;
  byId("verifying").hidden = false;
  byId("verifying").className = "";
  words.textContent = "It begins.";
  findings.replaceChildren();
  bar.removeAttribute("value");
  const events = new EventSource("/api/v1/evidence/verify");
  const end = (kind, told) => {
    events.close();
    byId("verifying").className = kind;
    words.textContent = told;
    bar.value = 1;
    button.disabled = false;
  };
  events.addEventListener("progress", (event) => {
    const { leaves, size } = JSON.parse(event.data);
    bar.value = size ? leaves / size : 1;
    words.textContent = `${leaves.toLocaleString("en")} of ${size.toLocaleString("en")} leaves`;
  });
  events.addEventListener("report", (event) => {
    const report = JSON.parse(event.data);
    if (report.fine) end("is-good", "Everything fits: no leaf was changed, left out or put in later.");
    else end("is-bad", "Something does not fit:");
    findings.replaceChildren(...report.findings.map((each) => line(Object.values(each).join(": "))));
  });
  events.addEventListener("failed", (event) => end("is-bad", JSON.parse(event.data).reason));
  events.addEventListener("error", () => end("is-bad", "The check was cut off, or another is under way."));
}

export function verifyOnDemand() {
  byId("verify")?.addEventListener("click", verify);
}
