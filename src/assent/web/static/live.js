// @ts-check
/** Live changes: one stream for all tabs of a browser, a hint each; what is shown is read again. */

import { announce, keepingPlace } from "./list.js";
import { afterSwap, find, findAll, htmx, shownId } from "./page.js";
import { badge, offerNotifications, tellOf } from "./notify.js";

const PAUSE_MS = 150, POLL_MS = 30_000, RETRY_MS = 1000, SLOW_MS = 5000;
const channel = new BroadcastChannel("assent-live");
/** @type {Set<string>} */
let changed = new Set();
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;
let busy = false;
/** How many refreshes in a row did not arrive. */
let failures = 0;
/** @type {EventSource | undefined} */
let stream;
let readAt = -Infinity;
/** What the tab with the stream says of it. */
let connection = "";
/** Regions whose latest refresh arrived, and whether it was shown. @type {Map<string, boolean>} */
const arrived = new Map();

/** Show the state of the connection: never "live" while a refresh is missing. */
function show() {
  const state = failures && connection === "live" ? "lost" : connection;
  if (!state) return;
  for (const element of findAll("#connection")) {
    const text = element.dataset[state] ?? "";
    if (element.textContent !== text) element.textContent = text;
    element.classList.toggle("lost", state !== "live");
    element.hidden = false;
  }
}

/** @param {string} state "live", "lost" or "offline" */
function say(state) {
  connection = state;
  show();
}

/** @param {string} id of what changed, or "*" */
function hear(id) {
  changed.add(id);
  // The first is shown at once; those that follow closely are shown together. A retry that waits is brought forward.
  if (timer !== undefined && !failures) return;
  clearTimeout(timer);
  timer = setTimeout(refresh, Math.max(0, readAt + PAUSE_MS - performance.now()));
}

async function refresh() {
  timer = undefined;
  if (busy) {
    timer = setTimeout(refresh, PAUSE_MS);
    return;
  }
  busy = true;
  readAt = performance.now();
  const heard = changed;
  changed = new Set();
  const slow = setTimeout(() => { failures ||= 1; show(); }, SLOW_MS);
  let complete = false;
  try {
    complete = await refreshRows() && await refreshShown(heard);
  } finally {
    clearTimeout(slow);
    busy = false;
    if (complete) failures = 0;
    else retry(heard);
    show();
  }
}

/** A refresh that was dropped or failed is asked for again, less and less often. @param {Set<string>} missed */
function retry(missed) {
  for (const id of missed) changed.add(id);
  failures += 1;
  if (timer === undefined) timer = setTimeout(refresh, Math.min(POLL_MS, RETRY_MS * 2 ** (failures - 1)));
}

/** Ask for one region; true if its answer arrived. @param {string} region @param {string} address */
async function ask(region, address) {
  arrived.delete(region);
  // A request that htmx drops or aborts, or that the network loses, ends without an answer and without an error here.
  await htmx().ajax("GET", address, { target: `#${region}`, swap: "innerMorph" });
  return arrived.has(region);
}

async function refreshRows() {
  const address = find("#rows .rows-head")?.dataset.address;
  if (!address) return true;
  let complete = false;
  const fresh = await keepingPlace(async () => { complete = await ask("rows", address); });
  announce(fresh);
  tellOf(fresh);
  return complete;
}

/** @param {Set<string>} heard */
async function refreshShown(heard) {
  const id = shownId();
  if (!id || !heard.has(id) && !heard.has("*")) return true;
  // An open menu stays as it is; the refresh follows when it is closed.
  if (inUse()) return true;
  const complete = await ask("live", `/breakpoints/${id}${location.search}`);
  return complete || id !== shownId();
}

function inUse() {
  return !!find("#standing")?.contains(document.activeElement) || !!find("#standing details[open]");
}

/** After a menu was closed or left, show what it held up. */
function catchUp() {
  const id = shownId();
  if (id && find("#standing")) setTimeout(() => { if (!inUse()) hear(id); });
}

function listen() {
  const opened = new EventSource("/live");
  stream = opened;
  /** @param {string} state */
  const tell = (state) => {
    say(state);
    channel.postMessage({ state });
  };
  /** @param {string} id */
  const pass = (id) => {
    hear(id);
    channel.postMessage({ id });
  };
  opened.onopen = () => {
    tell("live");
    // What happened between the page and the stream, or while it was cut, was told to nobody.
    pass("*");
  };
  opened.onerror = () => tell(navigator.onLine ? "lost" : "offline");
  opened.addEventListener("changed", (event) => pass(JSON.parse(event.data).breakpointId));
  opened.addEventListener("resync", () => pass("*"));
  // A connection that the server refused is not tried again by the browser.
  setInterval(() => {
    if (opened.readyState !== EventSource.CLOSED) return;
    tell("lost");
    pass("*");
  }, POLL_MS);
}

export function startLive() {
  if (!find("#connection")) return;
  channel.onmessage = ({ data }) => {
    if (data.state) say(data.state);
    if (data.id) hear(data.id);
    if (data.asks && stream?.readyState === EventSource.OPEN) channel.postMessage({ state: "live" });
  };
  // Browsers have Web Locks only over HTTPS and on localhost; elsewhere each tab has a stream of its own.
  if (navigator.locks) {
    navigator.locks.request("assent-live", async () => {
      listen();
      await new Promise(() => {});
    });
  } else listen();
  channel.postMessage({ asks: true });
  setInterval(() => {
    if (find("#connection.lost")) hear("*");
  }, POLL_MS);
  document.addEventListener("assent:refreshed", (event) => {
    const { region, late } = /** @type {CustomEvent} */ (event).detail;
    arrived.set(region, !late);
  });
  for (const type of ["toggle", "focusout"]) {
    document.addEventListener(type, (event) => {
      if (event.target instanceof Element && event.target.closest("#standing")) catchUp();
    }, { capture: true });
  }
  window.addEventListener("offline", () => say("offline"));
  window.addEventListener("online", () => {
    if (stream?.readyState === EventSource.OPEN) say("live");
    hear("*");
  });
  badge();
  afterSwap(badge);
  offerNotifications();
}
