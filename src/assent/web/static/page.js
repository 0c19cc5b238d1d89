// @ts-check
/** Finding things on the page, and asking htmx for more of it. */

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

/** The breakpoint that is open: what the page shows, not what the list points at. */
export function shownId() {
  return find("#detail > .one")?.dataset.id ?? null;
}

/** Call back after each swap, with the part of the page that changed and what asked for it.
 * @param {(target: Element, source: Element | null) => void} then */
export function afterSwap(then) {
  document.addEventListener("htmx:after:swap", (event) => {
    const { target, sourceElement } = /** @type {CustomEvent} */ (event).detail?.ctx ?? {};
    // The server may have sent it elsewhere: then the target is a selector.
    const found = typeof target === "string" ? find(target) : target;
    then(found instanceof Element ? found : document.body, sourceElement instanceof Element ? sourceElement : null);
  });
}

/** Tell screen readers, politely; the message is taken away again, so that the same one can be told twice.
 * @param {string} text */
export function announce(text) {
  const place = find("#announced");
  if (!place) return;
  place.textContent = text;
  setTimeout(() => { if (place.textContent === text) place.textContent = ""; }, ANNOUNCED_MS);
}

/** Is somebody writing here? @param {EventTarget | null} target */
export function isTyping(target) {
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable || target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement) return true;
  return target instanceof HTMLInputElement && !["checkbox", "radio", "button", "submit"].includes(target.type);
}
