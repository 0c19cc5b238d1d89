// @ts-check
/** Live changes: one stream for all tabs of a browser, a hint each; what is shown is read again. */

import { announce, keepingPlace } from "./list.js";
import { find, findAll, htmx, shownId } from "./page.js";
import { badge, offerNotifications, tellOf } from "./notify.js";

const PAUSE_MS = 150, POLL_MS = 30_000;
const channel = new BroadcastChannel("assent-live");
/** @type {Set<string>} */
let changed = new Set();
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;
let busy = false;
let failed = false;
/** @type {EventSource | undefined} */
let stream;
let readAt = -Infinity;

/** @param {string} state "live", "lost" or "offline" */
function say(state) {
  for (const element of findAll("#connection")) {
    const text = element.dataset[state] ?? "";
    if (element.textContent !== text) element.textContent = text;
    element.classList.toggle("lost", state !== "live");
    element.hidden = false;
  }
}

/** @param {string} id of what changed, or "*" */
function hear(id) {
  changed.add(id);
  // The first is shown at once; those that follow closely are shown together.
  if (timer === undefined) timer = setTimeout(refresh, Math.max(0, readAt + PAUSE_MS - performance.now()));
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
  try {
    await refreshRows();
    const shown = shownId();
    if (shown && (heard.has(shown) || heard.has("*"))) await refreshDetail(shown);
  } finally {
    busy = false;
  }
}

async function refreshRows() {
  const address = find("#rows .rows-head")?.dataset.address;
  if (!address) return;
  const before = failed;
  failed = false;
  const fresh = await keepingPlace(() => htmx().ajax("GET", address, { target: "#rows", swap: "innerMorph" }));
  announce(fresh);
  tellOf(fresh);
  badge();
  if (before && !failed && stream?.readyState !== EventSource.CLOSED) say("live");
}

/** Only the regions that nobody types into; an open menu there is somebody's, and stays. @param {string} id */
async function refreshDetail(id) {
  const standing = find("#standing");
  const inUse = standing?.contains(document.activeElement) || find("#standing details[open]");
  if (inUse) return;
  await htmx().ajax("GET", `/breakpoints/${id}${location.search}`, { target: "#live", swap: "innerMorph" });
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
  navigator.locks.request("assent-live", async () => {
    listen();
    await new Promise(() => {});
  });
  channel.postMessage({ asks: true });
  setInterval(() => {
    if (find("#connection.lost")) hear("*");
  }, POLL_MS);
  document.addEventListener("assent:refresh-failed", () => {
    failed = true;
    say("lost");
  });
  window.addEventListener("offline", () => say("offline"));
  window.addEventListener("online", () => hear("*"));
  badge();
  offerNotifications();
}
