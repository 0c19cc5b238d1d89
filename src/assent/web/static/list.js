// @ts-check
/** The cursor in the list: it is ours, and put back after every swap, so that a live change never moves the reader. */

import { afterSwap, find, findAll, shownId } from "./page.js";

/** @type {string | null} */
let cursor = null;
/** What was opened by an answer to another item, and not by its reader. @type {string | null} */
let advanced = null;

export function cursorId() {
  return cursor;
}

function rows() {
  return findAll(".row[data-id]");
}

/** @param {string} id */
export function rowOf(id) {
  return find(`.row[data-id="${CSS.escape(id)}"]`);
}

function mark() {
  for (const row of rows()) {
    const here = row.dataset.id === cursor;
    row.classList.toggle("here", here);
    const link = find(".title", row);
    if (here) link?.setAttribute("aria-current", "true");
    else link?.removeAttribute("aria-current");
  }
}

/** Point at a row without opening it. @param {string | null} id */
export function pointAt(id) {
  cursor = id;
  mark();
}

/** Move by some rows and open what is there. @param {number} by */
export function move(by) {
  const all = rows();
  if (!all.length) return;
  const now = all.findIndex((row) => row.dataset.id === cursor);
  const next = all[now < 0 ? (by > 0 ? 0 : all.length - 1) : Math.max(0, Math.min(all.length - 1, now + by))];
  if (!next || next.dataset.id === cursor && next.dataset.id === shownId()) return;
  pointAt(next.dataset.id ?? null);
  next.scrollIntoView({ block: "nearest" });
  const link = find(".title", next);
  link?.focus({ preventScroll: true });
  link?.click();
}

/** Read what the cursor is on. */
export function open() {
  if (cursor && cursor !== shownId()) find(".title", rowOf(cursor) ?? document)?.click();
  else find("#headline")?.focus();
}

/** Bring the item into view; true if it was there to be answered already. */
export function onScreen() {
  const shown = shownId();
  if (shown && (cursor === null || cursor === shown)) {
    const box = find("#headline")?.getBoundingClientRect();
    const answer = find("#answer")?.getBoundingClientRect();
    // Nobody decides a high-risk item with the key they meant for the one before: the first press only points it out.
    if (advanced === shown && find('#detail > .one[data-risk="high"]')) {
      advanced = null;
      find("#main")?.scrollTo(0, 0);
      find("#headline")?.focus();
      return false;
    }
    return !!box && !!answer && answer.top < window.innerHeight;
  }
  if (cursor) open();
  else move(1);
  return false;
}

/** Bring the row of the open item into view. */
function reveal() {
  const shown = shownId();
  if (shown) rowOf(shown)?.scrollIntoView({ block: "nearest" });
}

/** Where the reader is: a row and its place, and whether the open row is seen. */
function place() {
  const anchor = (cursor && rowOf(cursor)) || rows().find((row) => row.getBoundingClientRect().bottom > 0);
  const box = rowOf(shownId() ?? "")?.getBoundingClientRect();
  return {
    id: anchor?.dataset.id,
    top: anchor?.getBoundingClientRect().top ?? 0,
    seen: !!box && box.top < window.innerHeight && box.bottom > 0,
  };
}

/** Swap rows, and leave what the reader is on where it is. @param {() => Promise<void>} swap */
export async function keepingPlace(swap) {
  const known = new Set(rows().map((row) => row.dataset.id));
  const pane = find("#list");
  let before = place();
  // Looked at right before the swap: the reader may move while the request is on its way.
  const look = () => { before = place(); };
  const restore = () => {
    mark();
    const row = before.id ? rowOf(before.id) : null;
    const scroller = pane && pane.scrollHeight > pane.clientHeight ? pane : document.scrollingElement;
    if (row && scroller && scroller.scrollTop > 0) scroller.scrollTop += row.getBoundingClientRect().top - before.top;
    if (before.seen) reveal();
  };
  document.addEventListener("htmx:before:swap", look);
  document.addEventListener("htmx:after:swap", restore);
  try {
    await swap();
  } finally {
    document.removeEventListener("htmx:before:swap", look);
    document.removeEventListener("htmx:after:swap", restore);
  }
  return rows().filter((row) => !known.has(row.dataset.id));
}

/** Say how many are new above or below what is seen. @param {HTMLElement[]} fresh */
export function announce(fresh) {
  const pill = find("#new-items");
  const unseen = fresh.filter((row) => {
    const box = row.getBoundingClientRect();
    return box.bottom < 0 || box.top > window.innerHeight;
  });
  const label = pill && find("span", pill);
  if (!pill || !label || !unseen.length) return;
  const sum = Number(label.textContent || 0) + unseen.length;
  label.textContent = String(sum);
  pill.hidden = false;
  pill.onclick = () => {
    unseen[0]?.scrollIntoView({ block: "center" });
    pill.hidden = true;
    label.textContent = "";
  };
}

export function startList() {
  pointAt(shownId());
  reveal();
  document.addEventListener("click", (event) => {
    const row = event.target instanceof Element ? event.target.closest(".row[data-id]") : null;
    if (row instanceof HTMLElement && event.target instanceof Element && event.target.closest(".title")) pointAt(row.dataset.id ?? null);
  });
  afterSwap((target, source) => {
    if (target.id === "detail") {
      // Moved by the list: the cursor is there already, and may be further by now. Moved by an answer: it follows.
      const byList = !!source?.closest(".row");
      if (!byList) cursor = shownId();
      advanced = source instanceof HTMLFormElement ? shownId() : null;
      const asked = cursor && cursor !== shownId() ? find(".title", rowOf(cursor) ?? document.createElement("i")) : null;
      // Pressed faster than answers come, the last request may have been dropped for the one before: ask again.
      if (asked && !asked.classList.contains("htmx-request")) asked.click();
      find("#main")?.scrollTo(0, 0);
      if (!byList) reveal();
    } else if (target.id === "rows" && source instanceof HTMLFormElement) reveal();
    mark();
  });
}
