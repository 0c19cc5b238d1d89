// @ts-check
// Draws a page's charts. Their values are in the figure elements, and their colors are in the style sheet.
import uPlot from "./vendor/uPlot.esm.js";

/** @typedef {{label: string, token: string, values: (number | null)[]}} Series */
/** @typedef {{kind: "lines" | "bars", unit: "count" | "seconds" | "percent", step: number, at: number[], series: Series[]}} Chart */

const HEIGHT = 220;
const AXIS = 58;
const ROUND = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 432000, 864000];
const WHOLE = [1, 10, 100, 1000, 10000, 100000].flatMap((size) => [1, 2, 5].map((each) => each * size));
const UNITS = /** @type {[number, string][]} */ ([[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]]);

/** @type {Map<HTMLElement, {plot: any, sizes: ResizeObserver}>} */
const drawn = new Map();

/** @param {string} token */
const colour = (token) => getComputedStyle(document.documentElement).getPropertyValue(`--${token}`).trim();

/** @param {number | null | undefined} value @param {Chart["unit"]} unit */
function told(value, unit) {
  if (value === null || value === undefined) return "–";
  if (unit === "percent") return `${Math.round(value * 100)}%`;
  if (unit === "count") return value.toLocaleString();
  const [size, name] = UNITS.find(([size]) => value >= size) ?? [1, "s"];
  return `${Math.round((value / size) * 10) / 10} ${name}`;
}

/** Label the start of a day with its date, and other times with the time of day, in UTC as in the tables. @param {any} _ @param {number[]} moments */
function dated(_, moments) {
  const texts = moments.map((each) => new Date(each * 1000).toISOString());
  return texts.map((each) => (each.slice(11, 16) === "00:00" ? each.slice(5, 10) : each.slice(11, 16)));
}

/** Stack each series on the previous series; the last and highest series is drawn first. @param {Series[]} series */
function stacked(series) {
  /** @type {number[]} */
  let below = [];
  return series
    .map((each) => {
      below = each.values.map((value, n) => (below[n] ?? 0) + (value ?? 0));
      return { ...each, heights: below };
    })
    .reverse();
}

/** @param {Chart} chart */
function bars(chart) {
  const paths = uPlot.paths.bars?.({ size: [0.7, 60], align: 1 });
  const layers = stacked(chart.series);
  return {
    heights: layers.map((each) => each.heights),
    series: layers.map((each) => ({
      label: each.label,
      fill: colour(each.token),
      stroke: colour(each.token),
      width: 0,
      paths,
      points: { show: false },
      /** @param {any} _ @param {any} __ @param {number} ___ @param {number | null} n */
      value: (_, __, ___, n) => told(n === null ? null : each.values[n], chart.unit),
    })),
  };
}

/** @param {Chart} chart */
function lines(chart) {
  const only = chart.series.length === 1;
  return {
    heights: chart.series.map((each) => each.values),
    series: chart.series.map((each, n) => ({
      label: each.label,
      stroke: colour(each.token),
      fill: only ? `color-mix(in srgb, ${colour(each.token)} 13%, transparent)` : undefined,
      width: 2,
      dash: n ? [8, 4 * n] : undefined,
      spanGaps: true,
      /** @param {any} _ @param {number | null} value */
      value: (_, value) => told(value, chart.unit),
    })),
  };
}

/** @param {HTMLElement} figure @param {HTMLElement} place */
function draw(figure, place) {
  /** @type {Chart} */
  const chart = JSON.parse(figure.dataset.chart ?? "");
  const { heights, series } = chart.kind === "bars" ? bars(chart) : lines(chart);
  const axis = { stroke: colour("muted"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false } };
  figure.classList.add("drawn");
  place.replaceChildren();
  /** @type {any} */ // uPlot accepts more options than its types declare
  const options = {
    width: Math.max(place.clientWidth, 200),
    height: HEIGHT,
    tzDate: (/** @type {number} */ at) => uPlot.tzDate(new Date(at * 1000), "Etc/UTC"),
    scales: {
      x: { range: () => [chart.at[0], (chart.at.at(-1) ?? 0) + chart.step] },
      y: { range: (/** @type {any} */ _, /** @type {number} */ __, /** @type {number} */ most) => [0, chart.unit === "percent" ? 1 : Math.max(most * 1.05, 1)] },
    },
    axes: [
      { ...axis, values: dated },
      { ...axis, size: AXIS, incrs: { seconds: ROUND, count: WHOLE, percent: undefined }[chart.unit], values: (/** @type {any} */ _, /** @type {number[]} */ at) => at.map((each) => told(each, chart.unit)) },
    ],
    cursor: { drag: { x: false, y: false } },
    series: [{ value: "{YYYY}-{MM}-{DD} {HH}:{mm}" }, ...series],
  };
  const plot = new uPlot(options, [chart.at, ...heights], place);
  const sizes = new ResizeObserver(() => plot.setSize({ width: Math.max(place.clientWidth, 200), height: HEIGHT }));
  sizes.observe(place);
  drawn.set(figure, { plot, sizes });
}

/** @param {HTMLElement} figure */
function forget(figure) {
  const old = drawn.get(figure);
  old?.sizes.disconnect();
  old?.plot.destroy();
  drawn.delete(figure);
}

function drawAll() {
  for (const figure of [...drawn.keys()]) if (!figure.isConnected) forget(figure);
  for (const figure of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("figure[data-chart]"))) {
    const place = figure.querySelector(".plot");
    if (place instanceof HTMLElement && !drawn.has(figure)) draw(figure, place);
  }
}

drawAll();
// Parts of a page, such as back-tests, are inserted when they are ready.
new MutationObserver(drawAll).observe(document.body, { childList: true, subtree: true });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const figure of [...drawn.keys()]) forget(figure);
  drawAll();
});
