// @ts-check
/** Shows the number of pending breakpoints in the title, icon and navigation, and sends notifications if enabled. */

import { find, findAll } from "./page.js";

const ON = "assent.notify";

export function badge() {
  const waiting = find("#rows .rows-head")?.dataset.waiting;
  if (waiting === undefined) return;
  const shown = find("#detail > .one #headline")?.textContent;
  const name = shown ? `${find("#detail .trouble") ? "Error: " : ""}${shown}` : "Inbox";
  document.title = `${waiting ? `(${waiting}) ` : ""}${name} · Assent`;
  for (const element of findAll("[data-waiting-count]")) element.textContent = waiting;
  const icon = find("link[rel=icon]");
  if (icon instanceof HTMLLinkElement) icon.href = (waiting ? icon.dataset.waiting : icon.dataset.calm) ?? icon.href;
}

/** @param {HTMLElement[]} fresh new rows */
export function tellOf(fresh) {
  if (!document.hidden || !localStorage.getItem(ON) || Notification.permission !== "granted" || !fresh[0]) return;
  const first = find(".title", fresh[0])?.textContent ?? "";
  const body = fresh.length > 1 ? `${first} and ${fresh.length - 1} more` : first;
  const note = new Notification("Approval needed", { body, tag: "assent" });
  note.onclick = () => {
    window.focus();
    find(".title", fresh[0])?.click();
  };
}

export function offerNotifications() {
  if (!("Notification" in window)) return;
  for (const button of findAll('[data-action="notify"]')) {
    const told = () => { button.textContent = localStorage.getItem(ON) ? "Turn off notifications" : "Turn on notifications"; };
    button.hidden = false;
    told();
    button.addEventListener("click", async () => {
      if (localStorage.getItem(ON)) localStorage.removeItem(ON);
      else if (await Notification.requestPermission() === "granted") localStorage.setItem(ON, "1");
      told();
    });
  }
}
