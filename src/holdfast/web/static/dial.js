// The dial of the plan: while it turns, the page is asked for anew with what it points to.
import { renew } from "./live.js";

function turned(dial) {
  const address = new URL(location.href);
  address.search = new URLSearchParams(new FormData(dial));
  history.replaceState(null, "", address);
  dial.querySelector("output").textContent = dial.elements.notch.value;
  renew();
}

export function turnDial() {
  document.addEventListener("input", (event) => {
    const dial = event.target.closest("#dial");
    if (dial) turned(dial);
  });
}
