// @ts-check
/** Functions for finding elements on the page and for using htmx. */

const ANNOUNCED_MS = 5000;

/** @typedef {{ajax(verb: string, path: string, context: {target: string, swap?: string, source?: Element}): Promise<void>}} Htmx */

/** @returns {Htmx} */
export function htmx() {
  return /** @type {any} */ (window).htmx;
}

/**
 * @template {Element} [T=HTMLElement]
 * @param {string} selector
 * @param {ParentNode} [within]
 * @returns {T | null}
 */
export function find(selector, within = document) {
  return /** @type {T | null} */ (within.querySelector(selector));
}

/**
 * @template {Element} [T=HTMLElement]
 * @param {string} selector
 * @param {ParentNode} [within]
 * @returns {T[]}
 */
export function findAll(selector, within = document) {
  return /** @type {T[]} */ ([...within.querySelectorAll(selector)]);
}

/** Return the ID of the open breakpoint; it can differ from the breakpoint at the list's cursor. */
export function shownId() {
  return find("#detail > .one")?.dataset.id ?? null;
}

/** Call `then` after each swap, with the changed element and the element that requested the swap.
 * @param {(target: Element, source: Element | null) => void} then */
export function afterSwap(then) {
  document.addEventListener("htmx:after:swap", (event) => {
    const { target, sourceElement } = /** @type {CustomEvent} */ (event).detail?.ctx ?? {};
    // If the server changed the target, `target` is a selector.
    const found = typeof target === "string" ? find(target) : target;
    then(found instanceof Element ? found : document.body, sourceElement instanceof Element ? sourceElement : null);
  });
}

/** Announce a message to screen readers, then remove it so that the same message can be announced again.
 * @param {string} text */
export function announce(text) {
  const place = find("#announced");
  if (!place) return;
  place.textContent = text;
  setTimeout(() => { if (place.textContent === text) place.textContent = ""; }, ANNOUNCED_MS);
}

/** Return whether the user is typing in this element. @param {EventTarget | null} target */
export function isTyping(target) {
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable || target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement) return true;
  return target instanceof HTMLInputElement && !["checkbox", "radio", "button", "submit"].includes(target.type);
}
