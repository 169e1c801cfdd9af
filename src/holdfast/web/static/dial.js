// The dial of the plan: while it turns, the page is asked for anew with what it points to.
import { renew } from "./live.js";

export function turnDial() {
  const dial = document.getElementById("dial");
  if (!dial) return;
  const turned = () => {
    const address = new URL(location.href);
    address.search = new URLSearchParams(new FormData(dial));
    history.replaceState(null, "", address);
    for (const output of dial.querySelectorAll("output")) {
      output.textContent = dial.elements[output.htmlFor].value;
    }
    renew(address.href);
  };
  dial.addEventListener("input", turned);
  dial.addEventListener("submit", (event) => {
    event.preventDefault();
    turned();
  });
}
