// @ts-check
/** Notices about the last action: removed after a while, or when another notice is shown. */

import { afterSwap, find } from "./page.js";

const PLAIN_SECONDS = 8;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;

function arm() {
  const toast = find("#notice .toast");
  clearTimeout(timer);
  if (!toast) return;
  const until = toast.dataset.until ? Date.parse(toast.dataset.until) - Date.now() : PLAIN_SECONDS * 1000;
  timer = setTimeout(() => toast.remove(), Math.max(1000, Math.min(until, 60_000)));
}

/** Remove the notice that offers to undo an answer if the answer did not take effect. */
function dropStale() {
  const toast = find("#notice .toast[data-breakpoint]");
  const id = toast?.dataset.breakpoint;
  if (toast && id && find(`#unsent [data-breakpoint="${CSS.escape(id)}"]`)) toast.remove();
}

/** Show a notice and keep the form; the text is in one of the page's templates. @param {string} id */
export function showNotice(id) {
  const words = find(`#${CSS.escape(id)}`);
  const place = find("#dialog[open]") ?? find("#notice");
  if (!(words instanceof HTMLTemplateElement) || !place) return;
  find(".toast", place)?.remove();
  place.prepend(words.content.cloneNode(true));
  arm();
}

export function startNotices() {
  arm();
  document.addEventListener("htmx:error", (event) => {
    const { error, ctx } = /** @type {CustomEvent} */ (event).detail ?? {};
    // An aborted request is not an error if a newer request replaced it. Forms are never replaced: they timed out.
    // The connection state already shows failed refreshes.
    const replaced = error?.name === "AbortError" && !(ctx?.sourceElement instanceof HTMLFormElement);
    if (replaced || !(ctx?.sourceElement instanceof HTMLFormElement || ctx?.sourceElement instanceof HTMLAnchorElement)) return;
    showNotice("unreachable");
  });
  afterSwap((target) => {
    dropStale();
    if (find("#notice .toast") && (target.id === "notice" || target.id === "detail")) arm();
  });
  // Remove the notice from the URL, so that a reload does not show it again.
  const here = new URL(location.href);
  for (const name of ["after", "said", "batch", "count", "failed"]) here.searchParams.delete(name);
  if (here.href !== location.href) history.replaceState(history.state, "", here);
}
