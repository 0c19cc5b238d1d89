// @ts-check
/** The word about the last step: gone when its time is over, or when something else is said. */

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

/** An answer that did not take effect cannot be undone any more. */
function dropStale() {
  const toast = find("#notice .toast[data-breakpoint]");
  const id = toast?.dataset.breakpoint;
  if (toast && id && find(`#unsent [data-breakpoint="${CSS.escape(id)}"]`)) toast.remove();
}

/** Show a notice and leave the form as it is; the words are the server's, sent with the page. @param {string} id */
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
    // A request that a newer one replaced is no error, while a form is never replaced: what cuts it is its time limit.
    // A refresh that failed is said by the connection.
    const replaced = error?.name === "AbortError" && !(ctx?.sourceElement instanceof HTMLFormElement);
    if (replaced || !(ctx?.sourceElement instanceof HTMLFormElement || ctx?.sourceElement instanceof HTMLAnchorElement)) return;
    showNotice("unreachable");
  });
  afterSwap((target) => {
    dropStale();
    if (find("#notice .toast") && (target.id === "notice" || target.id === "detail")) arm();
  });
  // What the address says about the last step is said once: a reload does not say it again.
  const here = new URL(location.href);
  for (const name of ["after", "said", "batch", "count", "failed"]) here.searchParams.delete(name);
  if (here.href !== location.href) history.replaceState(history.state, "", here);
}
