// What makes the console quicker. Every page works without it.

import { followPointer, startKeys } from "./keys.js";
import { startLive } from "./live.js";

const root = document.body.dataset.root;

// The server shows times on the reader's own clock once it knows the zone.
function tellZone() {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const known = document.cookie.split("; ").find((each) => each.startsWith("horae_tz="));
  if (!zone || known === `horae_tz=${encodeURIComponent(zone)}`) return;
  document.cookie = `horae_tz=${encodeURIComponent(zone)}; path=${root.replace(/\/$/, "") || "/"}; max-age=31536000; samesite=lax`;
  if (document.querySelector("main time") && document.cookie.includes("horae_tz=")) location.reload();
}

// A popup closes when the reader goes elsewhere.
function closePopups(event) {
  for (const open of document.querySelectorAll("details.popup[open]")) {
    if (event.key === "Escape") {
      open.open = false;
      open.querySelector("summary").focus();
    } else if (!event.key && !open.contains(event.target)) {
      open.open = false;
    }
  }
}

// Buttons that copy appear only where copying works.
function startCopying() {
  if (!navigator.clipboard) return;
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    const text = button.textContent;
    button.textContent = button.dataset.done;
    setTimeout(() => (button.textContent = text), 1500);
  });
  const show = () => document.querySelectorAll("[data-copy][hidden]").forEach((each) => (each.hidden = false));
  document.addEventListener("htmx:after:swap", show);
  show();
}

// Where the menu or the tabs are a strip that is wider than the screen, readers see where they are.
function showPlace() {
  for (const strip of document.querySelectorAll(".side, .tabs")) {
    const here = strip.querySelector("[aria-current]");
    if (here) strip.scrollLeft = here.offsetLeft - strip.offsetLeft - (strip.clientWidth - here.offsetWidth) / 2;
  }
}

tellZone();
showPlace();
document.addEventListener("keydown", closePopups);
document.addEventListener("click", closePopups);
startCopying();
startKeys(root);
followPointer();
startLive();
