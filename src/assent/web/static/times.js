// @ts-check
/** Updates relative times and shows exact times on hover. The server formats them in the account's time zone;
 * for accounts without a time zone, this module uses the browser's. */

import { afterSwap, findAll } from "./page.js";

const MINUTE = 60, HOUR = 3600, DAY = 86400;
const hasZone = "zone" in document.documentElement.dataset;
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium", hourCycle: "h23" });

/** Format a time like `relative` in filters.py, or with seconds. @param {number} at in milliseconds @param {number} now in milliseconds @param {boolean} counting with seconds */
export function distance(at, now, counting) {
  const seconds = Math.floor(Math.abs(at - now) / 1000);
  if (at <= now && seconds < 5) return "just now";
  let text = `${Math.floor(seconds / DAY)} days`;
  if (counting && seconds < HOUR) text = `${Math.floor(seconds / MINUTE)}:${String(seconds % MINUTE).padStart(2, "0")} min`;
  else if (seconds < MINUTE) text = `${seconds} s`;
  else if (seconds < HOUR) text = `${Math.floor(seconds / MINUTE)} min`;
  else if (seconds < 2 * DAY) text = `${Math.floor(seconds / HOUR)} h`;
  return at > now ? `in ${text}` : `${text} ago`;
}

/** @param {HTMLTimeElement} element */
function update(element) {
  const at = Date.parse(element.dateTime);
  if (Number.isNaN(at)) return;
  if (!hasZone) element.title = exact.format(at);
  if (element.dataset.shows) {
    const text = (element.dataset.shows === "clock" ? clock : exact).format(at);
    if (!hasZone && element.textContent !== text) element.textContent = text;
    return;
  }
  const now = Date.now();
  const soon = at > now && at - now < 10 * MINUTE * 1000;
  const left = "left" in element.dataset ? `${Math.max(0, Math.ceil((at - now) / 1000))} s` : null;
  const text = left ?? distance(at, now, soon && !("countdown" in element.dataset));
  if (element.textContent !== text) element.textContent = text;
  const badge = element.closest(".due");
  badge?.classList.toggle("urgent", soon);
}

function updateAll() {
  if (document.hidden) return;
  for (const element of /** @type {HTMLTimeElement[]} */ (findAll("time[datetime]"))) update(element);
}

export function startTimes() {
  updateAll();
  setInterval(updateAll, 1000);
  document.addEventListener("visibilitychange", updateAll);
  afterSwap(updateAll);
}
