// @ts-check
/** The command palette: finds actions by name and shows their shortcuts. */

import { find, findAll } from "./page.js";
import { run } from "./keys.js";

function matching() {
  return findAll("#palette-list li").filter((entry) => !entry.hidden).map((entry) => find("button", entry));
}

/** @param {string} text */
function narrow(text) {
  const wanted = text.toLowerCase().split(/\s+/).filter(Boolean);
  for (const entry of findAll("#palette-list li")) {
    const words = entry.textContent?.toLowerCase() ?? "";
    entry.hidden = !wanted.every((word) => words.includes(word));
    find("button", entry)?.classList.remove("first");
  }
  matching()[0]?.classList.add("first");
}

export function startPalette() {
  const dialog = find("#palette");
  const input = find("#palette-find");
  if (!(dialog instanceof HTMLDialogElement) || !(input instanceof HTMLInputElement)) return;
  dialog.addEventListener("toggle", () => {
    if (!dialog.open) return;
    input.value = "";
    narrow("");
    input.focus();
  });
  input.addEventListener("input", () => narrow(input.value));
  dialog.addEventListener("keydown", (event) => {
    const buttons = matching();
    const at = buttons.findIndex((button) => button === document.activeElement);
    if (event.key === "Enter" && document.activeElement === input) {
      event.preventDefault();
      buttons[0]?.click();
    } else if (event.key === "ArrowDown") {
      event.preventDefault();
      buttons[Math.min(at + 1, buttons.length - 1)]?.focus();
    } else if (event.key === "ArrowUp") {
      event.preventDefault();
      (at > 0 ? buttons[at - 1] : input)?.focus();
    }
  });
  dialog.addEventListener("click", (event) => {
    const button = event.target instanceof Element ? event.target.closest("button[data-run]") : null;
    if (!(button instanceof HTMLButtonElement)) return;
    dialog.close();
    run(button.dataset.run ?? "");
  });
}
