// @ts-check
/** Discards late responses: those about an item that is no longer on the screen. */

import { showNotice } from "./notices.js";
import { find, shownId } from "./page.js";

const REFRESHED = ["rows", "live", "run-live"];

/** @typedef {{request: {action: string, method: string}, response: {status: number, headers: Headers}, target: unknown, sourceElement: unknown}} Context */

/** Return the ID of the breakpoint in a URL. @param {string} address */
function idIn(address) {
  return new URL(address, location.href).pathname.match(/^\/breakpoints\/([^/]+)/)?.[1] ?? null;
}

/** @param {Context} ctx */
function isRefresh(ctx) {
  const asked = ctx.sourceElement instanceof HTMLFormElement || ctx.sourceElement instanceof HTMLAnchorElement;
  return !asked && ctx.target instanceof Element && REFRESHED.includes(ctx.target.id);
}

/** @param {Context} ctx */
function isLate(ctx) {
  const about = idIn(ctx.request.action);
  const target = ctx.target instanceof Element ? ctx.target.id : "";
  const menu = find("#standing details[open]");
  if (target === "live" && (menu || find("#standing :focus"))) return true; // the user is using the menu
  // A live refresh has already shown the result of this form, and the response would close the menu next to the form.
  if (menu && target === "detail" && ctx.response.status === 200 && isBeside(ctx.sourceElement, menu)) return true;
  if (target === "live" || target === "dialog" && about) return about !== shownId();
  // The user has left the form's page, and the response would replace what they are reading now.
  return ctx.sourceElement instanceof HTMLFormElement && !ctx.sourceElement.isConnected;
}

/** @param {unknown} source @param {Element} menu */
function isBeside(source, menu) {
  return source instanceof HTMLFormElement && source.closest("#standing") !== null && !menu.contains(source);
}

export function startGuards() {
  document.addEventListener("htmx:after:request", (event) => {
    const ctx = /** @type {Context | undefined} */ (/** @type {CustomEvent} */ (event).detail?.ctx);
    if (!ctx?.response) return;
    if (ctx.response.headers.get("assent-resubmit") && ctx.sourceElement instanceof HTMLFormElement) {
      // The session has ended: submit the form as a normal request, which shows a sign-in page that keeps the input.
      event.preventDefault();
      HTMLFormElement.prototype.submit.call(ctx.sourceElement);
      return;
    }
    const notice = ctx.response.headers.get("assent-notice");
    if (notice) {
      event.preventDefault();
      showNotice(notice);
      return;
    }
    const refresh = isRefresh(ctx), failed = refresh && ctx.response.status !== 200, late = isLate(ctx);
    const region = ctx.target instanceof Element ? ctx.target.id : "";
    if (refresh && !failed) document.dispatchEvent(new CustomEvent("assent:refreshed", { detail: { region, late } }));
    if (failed || late) event.preventDefault();
  });
  // Holding down Enter must not also press the confirmation button.
  document.addEventListener("keydown", (event) => {
    if (event.repeat && event.key === "Enter" && find("#dialog[open]")) event.preventDefault();
  }, { capture: true });
}
