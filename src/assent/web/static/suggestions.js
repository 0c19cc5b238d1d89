// @ts-check
/** Suggestions below the search field: a list box whose options are links from the server. */

import { afterSwap, find, findAll } from "./page.js";

export function startSuggestions() {
  const input = find("#q");
  const list = find("#suggestions");
  if (!(input instanceof HTMLInputElement) || !list) return;
  /** The index of the selected option; -1 for the typed text. */
  let at = -1;
  const options = () => findAll("[role=option]", list);

  /** @param {number} to */
  const choose = (to) => {
    at = to;
    input.removeAttribute("aria-activedescendant");
    options().forEach((option, n) => {
      option.setAttribute("aria-selected", String(n === to));
      if (n !== to) return;
      input.setAttribute("aria-activedescendant", option.id);
      option.scrollIntoView({ block: "nearest" });
    });
  };
  /** @param {boolean} open */
  const show = (open) => {
    list.hidden = !open;
    input.setAttribute("aria-expanded", String(open));
    choose(-1);
  };

  input.setAttribute("role", "combobox");
  input.setAttribute("aria-autocomplete", "list");
  input.setAttribute("aria-controls", list.id);
  show(false);
  afterSwap((target) => {
    if (target === list) show(options().length > 0 && document.activeElement === input);
  });
  input.addEventListener("blur", () => show(false));
  input.addEventListener("keydown", (event) => {
    const count = options().length;
    if (event.isComposing || !count) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const by = event.key === "ArrowDown" ? 1 : -1;
      if (list.hidden) show(true);
      // There is one extra position, for the typed text.
      choose((at + 1 + by + count + 1) % (count + 1) - 1);
    } else if (event.key === "Enter" && !list.hidden && at >= 0) {
      event.preventDefault();
      options()[at]?.click();
    } else if (event.key === "Escape" && !list.hidden) {
      event.preventDefault();
      show(false);
    }
  });
  // Keep the focus in the field; otherwise, the list would be hidden before the click.
  list.addEventListener("mousedown", (event) => event.preventDefault());
}
