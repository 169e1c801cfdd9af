// What every page does: it updates itself, gives commands, and can be used by keyboard alone.
import { listenToKeys } from "./keys.js";
import { keepFresh } from "./live.js";
import { takeOrders } from "./orders.js";
import { turnDial } from "./dial.js";
import { watchOnDemand } from "./watch.js";

function toggleTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
}

document.getElementById("theme").addEventListener("click", toggleTheme);
listenToKeys(toggleTheme);
takeOrders();
watchOnDemand();
turnDial();
keepFresh();
