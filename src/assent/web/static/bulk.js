// @ts-check
/** Bulk selection: this module stores which rows are selected, and restores their checkboxes after every swap. */

import { afterSwap, find, findAll } from "./page.js";
import { cursorId, rowOf } from "./list.js";

/** @type {Set<string>} */
const picked = new Set();

function show() {
  const boxes = /** @type {HTMLInputElement[]} */ (findAll(".pick input"));
  const there = new Set(boxes.map((box) => box.name));
  for (const name of picked) if (!there.has(name)) picked.delete(name);
  for (const box of boxes) {
    box.checked = picked.has(box.name);
    box.closest(".row")?.classList.toggle("picked", box.checked);
  }
  find("#list")?.classList.toggle("picking", picked.size > 0);
  const label = find("[data-picked]");
  if (label && picked.size) label.textContent = `${picked.size} selected`;
}

/** Select or deselect the row at the cursor. */
export function togglePick() {
  const id = cursorId();
  const box = id && rowOf(id) ? find(".pick input", rowOf(id) ?? document) : null;
  box?.click();
}

export function clearPicks() {
  picked.clear();
  show();
}

export function startBulk() {
  document.addEventListener("change", (event) => {
    const box = event.target;
    if (!(box instanceof HTMLInputElement) || !box.closest(".pick")) return;
    if (box.checked) picked.add(box.name);
    else picked.delete(box.name);
    show();
  });
  afterSwap((target, source) => {
    if (source instanceof HTMLFormElement && source.action.includes("/bulk/decide")) clearPicks();
    else if (target.id === "rows" || target.id === "detail") show();
  });
  show();
}
