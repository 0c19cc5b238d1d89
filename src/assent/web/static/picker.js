// @ts-check
/** Fields that add a name to a list in another field: the chosen name is moved to the list immediately. */

import { announce, find } from "./page.js";

export function startPickers() {
  document.addEventListener("change", (event) => {
    const field = event.target;
    if (!(field instanceof HTMLInputElement) || !field.dataset.addsTo || !field.value.trim()) return;
    const list = find(`#${field.dataset.addsTo}`);
    if (!(list instanceof HTMLTextAreaElement)) return;
    list.value = [...list.value.split("\n").filter((line) => line.trim()), field.value.trim()].join("\n");
    announce(`Added ${field.value.trim()}.`);
    field.value = "";
  });
}
