// Live pages: while the tab is seen and the switch is on, the content is fetched again and morphed into place, so that
// focus, selection and scroll position stay.

const EVERY = 5000; // milliseconds between two looks where nothing announces a change
const PAUSED = "horae.paused";

export function startLive() {
  const button = document.getElementById("live");
  const content = document.getElementById("content");
  if (!button || !content?.hasAttribute("data-live")) return;
  let away = false;
  let timer = 0;

  const isPaused = () => sessionStorage.getItem(PAUSED) === "1";

  function show() {
    const state = isPaused() ? "off" : away ? "away" : "on";
    button.dataset.state = state;
    button.textContent = button.dataset[state];
    button.setAttribute("aria-pressed", String(state !== "off"));
  }

  function isBusy() {
    return document.hidden || isPaused() || document.querySelector("dialog[open], #content [data-editing]") !== null;
  }

  // What a reader has opened stays open: the server does not know of it.
  const opened = () => new Set([...content.querySelectorAll("details[open] > summary")].map((each) => each.textContent));

  function openAgain(texts) {
    for (const summary of content.querySelectorAll("details > summary")) {
      if (texts.has(summary.textContent)) summary.parentElement.open = true;
    }
  }

  async function look() {
    clearTimeout(timer);
    if (!isBusy()) {
      const before = opened();
      try {
        await htmx.ajax("GET", location.pathname + location.search, { target: "#content", swap: "innerMorph" });
      } catch {
        away = true;
      }
      openAgain(before);
      show();
    }
    timer = setTimeout(look, EVERY);
  }

  document.addEventListener("htmx:before:response", (event) => {
    const { response, target } = event.detail.ctx;
    if (target !== content) return;
    away = response.status >= 500;
    if (away) event.preventDefault(); // what is on the page stays there until the service answers again
  });
  document.addEventListener("htmx:error", () => {
    away = true;
    show();
  });
  document.addEventListener("visibilitychange", () => document.hidden || look());
  button.addEventListener("click", () => {
    sessionStorage.setItem(PAUSED, isPaused() ? "0" : "1");
    show();
    if (!isPaused()) look();
  });
  button.hidden = false;
  show();
  timer = setTimeout(look, EVERY);
}
