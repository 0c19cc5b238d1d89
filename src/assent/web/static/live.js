// @ts-check
/** Live updates: all of a browser's tabs share one event stream, and its events make them refresh what they show. */

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
/** Number of consecutive refreshes that failed. */
let failures = 0;
/** @type {EventSource | undefined} */
let stream;
let readAt = -Infinity;
/** The state of the connection, from the tab with the stream. */
let connection = "";
/** The regions whose latest refresh arrived, and whether it was shown. @type {Map<string, boolean>} */
const arrived = new Map();

/** Show the connection state, but never "live" if the latest refresh failed. */
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

/** @param {string} id of the changed breakpoint, or "*" */
function hear(id) {
  changed.add(id);
  // Refresh immediately after the first event, and once more for events that follow shortly. Do not wait for a retry.
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

/** Retry a refresh that was dropped or failed, with exponential backoff. @param {Set<string>} missed */
function retry(missed) {
  for (const id of missed) changed.add(id);
  failures += 1;
  if (timer === undefined) timer = setTimeout(refresh, Math.min(POLL_MS, RETRY_MS * 2 ** (failures - 1)));
}

/** Refresh one region; return true if the response arrived. @param {string} region @param {string} address */
async function ask(region, address) {
  arrived.delete(region);
  // This does not throw if htmx drops or aborts the request or the network fails, so check for a response.
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
  // Do not change an open menu; the refresh runs when the menu is closed.
  if (inUse()) return true;
  const complete = await ask("live", `/breakpoints/${id}${location.search}`);
  return complete || id !== shownId();
}

function inUse() {
  return !!find("#standing")?.contains(document.activeElement) || !!find("#standing details[open]");
}

/** After a menu closes or loses focus, perform the refresh that it delayed. */
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
    // Changes may have been missed between loading the page and opening the stream, or during an interruption.
    pass("*");
  };
  opened.onerror = () => tell(navigator.onLine ? "lost" : "offline");
  opened.addEventListener("changed", (event) => pass(JSON.parse(event.data).breakpointId));
  opened.addEventListener("resync", () => pass("*"));
  // The browser does not retry a connection that the server refused.
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
  // Web Locks are available only over HTTPS and on localhost; elsewhere, each tab has its own stream.
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
