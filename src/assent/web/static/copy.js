// @ts-check
/** Buttons that copy an ID, a secret or other text as shown; without scripts, the style sheet hides them. */

import { announce, find } from "./page.js";

const SHOWN_MS = 2000;

/** @param {HTMLElement} place */
async function copied(place) {
  try {
    await navigator.clipboard.writeText(place.textContent ?? "");
    return true;
  } catch {
    // Over plain HTTP, the Clipboard API is not available: select and copy. If that fails, the text stays selected.
    getSelection()?.selectAllChildren(place);
    return document.execCommand("copy");
  }
}

/** @param {HTMLElement} button */
async function press(button) {
  const beside = button.closest(".copyable");
  const place = button.dataset.copy ? find(button.dataset.copy) : beside && find("code", beside);
  if (!place) return;
  const isCopied = await copied(place);
  announce(isCopied ? `Copied ${button.dataset.what}.` : "Could not copy. The text is selected; press Ctrl+C.");
  button.classList.toggle("copied", isCopied);
  setTimeout(() => button.classList.remove("copied"), SHOWN_MS);
}

export function startCopying() {
  document.addEventListener("click", (event) => {
    const button = event.target instanceof Element ? event.target.closest("[data-copy]") : null;
    if (button instanceof HTMLElement) press(button);
  });
}
