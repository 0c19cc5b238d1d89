// @ts-check
/** How many wait, in title, icon and navigation; and notifications for those who asked for them. */

import { find, findAll } from "./page.js";

const ON = "assent.notify";

export function badge() {
  const count = find("#rows .rows-head")?.dataset.waiting;
  if (count === undefined) return;
  const waiting = Number(count);
  if (!find("#detail > .one")) document.title = `${waiting ? `(${waiting}) ` : ""}Inbox · Assent`;
  else document.title = document.title.replace(/^(\(\d+\) )?/, waiting ? `(${waiting}) ` : "");
  for (const element of findAll("[data-waiting-count]")) element.textContent = waiting ? String(waiting) : "";
  const icon = find("link[rel=icon]");
  if (icon instanceof HTMLLinkElement) icon.href = (waiting ? icon.dataset.waiting : icon.dataset.calm) ?? icon.href;
}

/** @param {HTMLElement[]} fresh rows that were not there before */
export function tellOf(fresh) {
  if (!document.hidden || !localStorage.getItem(ON) || Notification.permission !== "granted" || !fresh[0]) return;
  const first = find(".title", fresh[0])?.textContent ?? "";
  const body = fresh.length > 1 ? `${first} and ${fresh.length - 1} more` : first;
  const note = new Notification("An agent asks", { body, tag: "assent" });
  note.onclick = () => {
    window.focus();
    find(".title", fresh[0])?.click();
  };
}

export function offerNotifications() {
  if (!("Notification" in window)) return;
  for (const button of findAll('[data-action="notify"]')) {
    const told = () => { button.textContent = localStorage.getItem(ON) ? "Notifications are on" : "Notify me here"; };
    button.hidden = false;
    told();
    button.addEventListener("click", async () => {
      if (localStorage.getItem(ON)) localStorage.removeItem(ON);
      else if (await Notification.requestPermission() === "granted") localStorage.setItem(ON, "1");
      told();
    });
  }
}
