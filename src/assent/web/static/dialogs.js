// @ts-check
/** Opens confirmations as dialogs; without scripts, the same content is a separate page. */

import { afterSwap, find } from "./page.js";

export function openDialog() {
  return find("dialog[open]");
}

/** @param {string} id */
export function toggleDialog(id) {
  const dialog = find(`dialog#${id}`);
  if (!(dialog instanceof HTMLDialogElement)) return;
  if (dialog.open) dialog.close();
  else dialog.showModal();
}

function show() {
  const dialog = find("#dialog");
  if (!(dialog instanceof HTMLDialogElement)) return;
  if (!dialog.open) dialog.showModal();
  find("[autofocus]", dialog)?.focus();
}

/** Close the open menu; return true if a menu was open. */
function closeMenu() {
  const menu = find("details.pop[open], details.switcher[open], details.menu[open]");
  if (!(menu instanceof HTMLDetailsElement)) return false;
  menu.open = false;
  find("summary", menu)?.focus();
  return true;
}

export function startDialogs() {
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !openDialog() && closeMenu()) event.preventDefault();
  });
  document.addEventListener("click", (event) => {
    const inside = event.target instanceof Element ? event.target.closest("details.pop") : null;
    for (const menu of document.querySelectorAll("details.pop[open]")) if (menu !== inside) menu.removeAttribute("open");
  });
  afterSwap((target, source) => {
    const dialog = find("#dialog");
    if (target.id === "dialog") show();
    else if (dialog instanceof HTMLDialogElement && dialog.open && source && dialog.contains(source)) {
      dialog.close();
      find("#headline")?.focus();
    } else if (target.id === "detail" && source?.closest("#answer, #notice")) {
      find("#detail .trouble a, #headline")?.focus();
    }
  });
  document.addEventListener("click", (event) => {
    const target = event.target instanceof Element ? event.target : null;
    const dialog = target?.closest("dialog");
    if (!(dialog instanceof HTMLDialogElement)) return;
    if (target?.closest("[data-close]")) {
      event.preventDefault();
      dialog.close();
    } else if (target === dialog) dialog.close();
  });
}
