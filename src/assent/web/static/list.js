// @ts-check
/** Stores the list's cursor and restores it after every swap, so that live changes never move it. */

import { afterSwap, find, findAll, shownId } from "./page.js";

/** @type {string | null} */
let cursor = null;
/** The item that was opened automatically after the user answered another item. @type {string | null} */
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

/** Move the cursor to a row without opening it. @param {string | null} id */
export function pointAt(id) {
  cursor = id;
  mark();
}

/** Move the cursor by a number of rows and open the item there. @param {number} by */
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

/** Open the item at the cursor. */
export function open() {
  if (cursor && cursor !== shownId()) find(".title", rowOf(cursor) ?? document)?.click();
  else find("#headline")?.focus();
}

/** Bring the item at the cursor into view; return true if it was already in view and could be answered. */
export function onScreen() {
  const shown = shownId();
  if (shown && (cursor === null || cursor === shown)) {
    const box = find("#headline")?.getBoundingClientRect();
    const answer = find("#answer")?.getBoundingClientRect();
    // A key press meant for the previous item must not decide a high-risk item: the first press only moves the focus.
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

/** Scroll the row of the open item into view. */
function reveal() {
  const shown = shownId();
  if (shown) rowOf(shown)?.scrollIntoView({ block: "nearest" });
}

/** Return an anchor (a row and its position), and whether the open item's row is visible. */
function place() {
  const anchor = (cursor && rowOf(cursor)) || rows().find((row) => row.getBoundingClientRect().bottom > 0);
  const box = rowOf(shownId() ?? "")?.getBoundingClientRect();
  return {
    id: anchor?.dataset.id,
    top: anchor?.getBoundingClientRect().top ?? 0,
    seen: !!box && box.top < window.innerHeight && box.bottom > 0,
  };
}

/** Swap rows without moving the row that the user is reading; return the new rows. @param {() => Promise<void>} swap */
export async function keepingPlace(swap) {
  const known = new Set(rows().map((row) => row.dataset.id));
  const pane = find("#list");
  let before = place();
  // Measured right before the swap, because the user may scroll during the request.
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

/** Show how many new rows are above or below the visible area. @param {HTMLElement[]} fresh */
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
      // After a click in the list, the cursor is already there or has moved on. After an answer, move it there.
      const byList = !!source?.closest(".row");
      if (!byList) cursor = shownId();
      advanced = source instanceof HTMLFormElement ? shownId() : null;
      const asked = cursor && cursor !== shownId() ? find(".title", rowOf(cursor) ?? document.createElement("i")) : null;
      // If keys are pressed faster than responses arrive, htmx may have dropped the last request: send it again.
      if (asked && !asked.classList.contains("htmx-request")) asked.click();
      find("#main")?.scrollTo(0, 0);
      if (!byList) reveal();
    } else if (target.id === "rows" && source instanceof HTMLFormElement) reveal();
    mark();
  });
}
