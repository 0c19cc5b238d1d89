// @ts-check
/** Confirmations open as a dialog over the page; without scripts the same content is a page of its own. */

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

export function startDialogs() {
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
