// Keys: "/" finds, "g j" goes, "j" and "k" move, "x" selects, "l" pauses, "?" shows them all.

const rows = () => [...document.querySelectorAll("#content [data-row]")];
let current = -1;
let going = 0;

function move(step) {
  const all = rows();
  if (!all.length) return;
  current = Math.min(all.length - 1, Math.max(0, current + step));
  const link = all[current].querySelector("a");
  all.forEach((row, index) => row.toggleAttribute("data-current", index === current));
  link?.focus();
  all[current].scrollIntoView({ block: "nearest" });
}

function select() {
  const box = rows()[current]?.querySelector("input[type=checkbox]");
  if (box) box.click();
}

function isTyping(target) {
  return target.closest("input:not([type=checkbox]), textarea, select, dialog[open]") !== null;
}

export function followPointer() {
  document.addEventListener("focusin", (event) => {
    const row = event.target.closest("[data-row]");
    if (row) current = rows().indexOf(row);
  });
}

export function startKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (Date.now() - going < 1500) {
      going = 0;
      const entry = document.querySelector(`.side a[data-key="${CSS.escape(event.key)}"]`);
      if (entry) entry.click();
      return;
    }
    const acts = {
      "/": () => document.getElementById("search")?.focus(),
      g: () => (going = Date.now()),
      j: () => move(1),
      k: () => move(-1),
      x: select,
      l: () => document.getElementById("live")?.click(),
      "?": () => document.getElementById("keys")?.showModal(),
    };
    const act = acts[event.key];
    if (act) {
      event.preventDefault();
      act();
    }
  });
}
