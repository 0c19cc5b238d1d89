// @ts-check
/** Keyboard shortcuts: the help dialog from the server lists the keys; this module performs their actions. */

import { togglePick } from "./bulk.js";
import { openDialog, toggleDialog } from "./dialogs.js";
import { move, onScreen, open } from "./list.js";
import { find, findAll, isTyping } from "./page.js";

const OFF = "assent.single-keys-off";
const SEQUENCE_MS = 1200;
/** @type {Map<string, string>} */
const bindings = new Map();
let prefix = "";
let prefixAt = 0;

/** Click the visible button or link of an action. @param {string} action */
function press(action) {
  const found = findAll(`[data-action="${action}"]`).find((element) => element.checkVisibility());
  found?.click();
  return !!found;
}

/** @param {string} action */
function focus(action) {
  find(`[data-action="${action}"]`)?.focus();
}

function reject() {
  const reason = find("#comment");
  if (!(reason instanceof HTMLTextAreaElement)) return;
  if (reason.value.trim()) press("reject");
  else {
    reason.scrollIntoView({ block: "nearest" });
    reason.focus();
  }
}

/** @param {string} digit */
function pickOption(digit) {
  const button = find(`#answer [data-option="${digit}"]`);
  if (button) button.click();
  else find(`#option-${Number(digit) - 1}`)?.click();
}

/** @type {Record<string, () => void>} */
const actions = {
  next: () => move(1),
  previous: () => move(-1),
  open,
  search: () => focus("search"),
  comment: () => focus("comment"),
  // Never act on an item that is not on the screen: the first key press only opens it.
  approve: () => { if (onScreen() && !press("approve")) find("#answer [data-option], #option-0")?.focus(); },
  reject: () => { if (onScreen()) reject(); },
  claim: () => { if (onScreen()) press("claim"); },
  snooze: () => { if (onScreen()) press("snooze"); },
  select: togglePick,
  help: () => toggleDialog("help"),
  palette: () => toggleDialog("palette"),
  "go-mine": () => location.assign("/?mine=1"),
};

/** Perform an action. @param {string} action */
export function run(action) {
  const own = actions[action];
  if (own) own();
  else press(action);
}

function read() {
  for (const entry of findAll("#help [data-keys]")) bindings.set(entry.dataset.keys ?? "", entry.dataset.does ?? "");
}

/** @param {KeyboardEvent} event */
function pressed(event) {
  if (event.defaultPrevented || event.isComposing) return;
  if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    toggleDialog("palette");
  } else if ((event.metaKey || event.ctrlKey) && event.key === "Enter") {
    submitTyped(event);
  } else if (!event.metaKey && !event.ctrlKey && !event.altKey && !isTyping(event.target) && !openDialog()) {
    single(event);
  }
}

/** ⌘Enter submits the form that has the focus; it rejects only if the user has pressed the Reject shortcut.
 * @param {KeyboardEvent} event */
function submitTyped(event) {
  const form = event.target instanceof Element ? event.target.closest("form") : null;
  if (!(form instanceof HTMLFormElement)) return;
  event.preventDefault();
  const wanted = form.dataset.wanted === "reject" ? find("button[data-action=reject]", form) : null;
  form.requestSubmit(wanted instanceof HTMLButtonElement ? wanted : null);
}

/** @param {KeyboardEvent} event */
function single(event) {
  if (localStorage.getItem(OFF)) return;
  const now = performance.now();
  const keys = prefix && now - prefixAt < SEQUENCE_MS ? `${prefix} ${event.key}` : event.key;
  prefix = "";
  if (/^[1-9]$/.test(keys) && bindings.get("1–9")) {
    if (onScreen()) pickOption(keys);
    return;
  }
  const action = bindings.get(keys);
  const onControl = event.target instanceof Element && event.target.closest("a, button, summary, input");
  if (action && !(keys === "Enter" && onControl)) {
    event.preventDefault();
    run(action);
  } else if ([...bindings.keys()].some((each) => each.startsWith(`${keys} `))) {
    prefix = keys;
    prefixAt = now;
  }
}

export function startKeys() {
  read();
  document.addEventListener("keydown", pressed);
  document.addEventListener("keydown", (event) => {
    const form = find("#answer-form");
    if (event.key === "r" && form && !isTyping(event.target)) form.dataset.wanted = "reject";
  }, { capture: true });
  for (const button of findAll('button[data-action="help"]')) {
    button.hidden = false;
    button.onclick = () => toggleDialog("help");
  }
  const box = find("#single-keys");
  if (!(box instanceof HTMLInputElement)) return;
  box.checked = !localStorage.getItem(OFF);
  box.addEventListener("change", () => {
    if (box.checked) localStorage.removeItem(OFF);
    else localStorage.setItem(OFF, "1");
  });
}
