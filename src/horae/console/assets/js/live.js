// Live pages: while the tab is seen and the switch is on, a stream says when something has changed; then the content is
// fetched again and morphed into place, so that focus, selection and scroll position stay.

const EVERY = 5000; // milliseconds between two looks where no stream announces a change
const CALM = 15000; // and where one does: what is said of times grows old
const SHORTEST = 1000; // however often something changes
const LEAVING = 5000; // after a form was sent: the page that it was on may be gone
const SETTLE = 1000; // before the stream is opened: many pages are left at once
const PAUSED = "horae.paused";

export function startLive() {
  const button = document.getElementById("live");
  const content = document.getElementById("content");
  if (!button || !content?.hasAttribute("data-live")) return;
  let away = false;
  let timer = 0;
  let lookedAt = 0;
  let isLooking = false;
  let leftAt = 0;
  let again = false; // something changed during a look
  let stream = null;

  const isPaused = () => sessionStorage.getItem(PAUSED) === "1";

  function show() {
    const state = isPaused() ? "off" : away ? "away" : "on";
    button.dataset.state = state;
    button.textContent = button.dataset[state];
    button.setAttribute("aria-pressed", String(state !== "off"));
  }

  // A page that is being left, a dialog, a form in use and selected rows stay as they are.
  function isBusy() {
    const inUse = "dialog[open], #content [data-editing], #content [data-row] input:checked";
    return document.hidden || isPaused() || Date.now() - leftAt < LEAVING || document.querySelector(inUse) !== null;
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
    timer = 0;
    if (isLooking) {
      again = true;
      return;
    }
    if (!isBusy()) {
      const before = opened();
      isLooking = true;
      lookedAt = Date.now();
      try {
        await htmx.ajax("GET", location.pathname + location.search, { target: "#content", swap: "innerMorph" });
      } catch {
        away = true;
      }
      isLooking = false;
      if (again) soon();
      again = false;
      openAgain(before);
      show();
    }
    listen();
    if (!timer) timer = setTimeout(look, stream?.readyState === EventSource.OPEN ? CALM : EVERY);
  }

  function soon() {
    clearTimeout(timer);
    timer = setTimeout(look, Math.max(0, lookedAt + SHORTEST - Date.now()));
  }

  // One stream for a tab that is seen; where streams fail, the page is looked at every five seconds.
  function listen() {
    if (document.hidden || isPaused()) {
      stream?.close();
      stream = null;
    } else if (!stream || stream.readyState === EventSource.CLOSED) {
      stream = new EventSource(content.dataset.stream);
      stream.onopen = soon; // what changed since the page was made
      stream.onmessage = soon;
    }
  }

  document.addEventListener("htmx:before:response", (event) => {
    const { response, target } = event.detail.ctx;
    if (target !== content) return;
    away = response.status >= 500;
    if (away || isBusy()) event.preventDefault(); // what is on the page stays there until the service answers again
  });
  document.addEventListener("htmx:error", () => {
    away = true;
    show();
  });
  document.addEventListener("submit", () => (leftAt = Date.now()), true);
  document.addEventListener("visibilitychange", () => (document.hidden ? listen() : look()));
  button.addEventListener("click", () => {
    sessionStorage.setItem(PAUSED, isPaused() ? "0" : "1");
    show();
    if (isPaused()) listen();
    else look();
  });
  button.hidden = false;
  show();
  timer = setTimeout(look, EVERY);
  setTimeout(listen, SETTLE);
}
