// Keys that lead around. They can be switched off, for those whose voice types for them.

const PAUSE = 1200; // ms between g and the letter of a view

export function listenToKeys(toggleTheme) {
  const dialogue = document.getElementById("shortcuts");
  const on = document.getElementById("keys-on");
  on.checked = localStorage.getItem("keys") !== "off";
  on.addEventListener("change", () => localStorage.setItem("keys", on.checked ? "on" : "off"));
  document.getElementById("help").addEventListener("click", () => dialogue.showModal());
  let going = 0;
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, select, textarea");
    if (!on.checked || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.querySelector("dialog[open]")) return;
    const view = document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`);
    if (going > event.timeStamp && view) location.assign(view.href);
    else if (event.key === "g") going = event.timeStamp + PAUSE;
    else if (event.key === "?") dialogue.showModal();
    else if (event.key === "t") toggleTheme();
    else if (event.key === "/" && document.getElementById("search")) {
      event.preventDefault();
      document.getElementById("search").focus();
    }
  });
}
