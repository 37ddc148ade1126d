// Wait, delay and stall by percentile; each step to the right has a tenth of the values beyond it.

const KINDS = [
  { name: "wait", colour: 0, dash: "" },
  { name: "delay", colour: 3, dash: "6 3" },
  { name: "stall", colour: 2, dash: "2 3" },
];

// The value that a share of all does not exceed: the middle of its bucket, as the text report has it.
function quantile(kind, share) {
  if (kind.total === 0) return 0;
  const rank = Math.min(kind.total, Math.max(1, Math.ceil(share * kind.total)));
  let seen = 0;
  for (const [bucket, n] of kind.buckets) {
    seen += n;
    if (seen >= rank) return Math.min(kind.max, lowest(bucket) + Math.floor((lowest(bucket + 1) - lowest(bucket)) / 2));
  }
  return kind.max;
}

// Corners of the curve: nines, value. The last value stands where one in all remains.
function curve(kind) {
  const points = [];
  let seen = 0;
  for (const [bucket, n] of kind.buckets) {
    const from = -Math.log10(1 - seen / kind.total);
    seen += n;
    const to = seen < kind.total ? -Math.log10(1 - seen / kind.total) : Math.log10(kind.total) + 0.15;
    const value = seen < kind.total ? Math.max(1, lowest(bucket)) : Math.max(1, kind.max);
    points.push([from, value], [Math.max(from, to), value]);
  }
  return points;
}

const nines = (n) => (n === 0 ? "0" : n === 1 ? "90 %" : `${(100 - 10 ** (2 - n)).toFixed(Math.max(0, n - 2))} %`);

function drawPercentiles(shownSums) {
  const box = $("percentiles-plot");
  const [width, height] = [box.clientWidth, 330];
  const plot = { left: 52, right: width - 48, top: 12, bottom: height - 28 };
  const whole = shownSums.range === ALL ? shownSums.spread : sums.whole.spread;
  const curves = whole.map(curve);
  const deepest = Math.max(1, ...whole.map((k) => Math.log10(Math.max(1, k.total)) + 0.2));
  const range = decades(curves.flat().map(([, v]) => v));
  const x = (n) => plot.left + (Math.min(n, deepest) / deepest) * (plot.right - plot.left);
  const y = logScale(range, plot.bottom, plot.top);
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": "percentiles of wait, delay and stall; the table below has the figures" });
  percentileGrid(root, plot, x, y, { deepest, every: width > 480 ? 1 : 2, words: nines, range });
  const line = (points, kind, faint) => {
    if (points.length === 0) return;
    root.append(svg("path", { d: pathOf(points, x, y), fill: "none", stroke: faint ? colours["c-other"] : colours.causes[kind.colour], "stroke-width": faint ? 1 : 2, "stroke-dasharray": kind.dash, opacity: faint ? 0.6 : 1 }));
  };
  if (shownSums.range !== ALL) KINDS.forEach((kind, k) => line(curves[k], kind, true));
  const ends = [];
  KINDS.forEach((kind, k) => {
    const points = curve(shownSums.spread[k]);
    line(points, kind, false);
    if (points.length > 0) ends.push([...points[points.length - 1], kind.name, colours.causes[kind.colour]]);
  });
  endLabels(root, ends, x, y);
  box.replaceChildren(root);
  percentilesTable(shownSums);
  $("percentiles-text").textContent = `Wait of culprits, delay and stall of victims, by percentile${shownSums.range === ALL ? "" : "; grey is the whole trace"}.`;
}

function percentilesTable(shownSums) {
  const head = el("tr", {}, el("th", {}, ""), ...["p50", "p90", "p99", "p99.9", "max"].map((h) => el("th", { class: "n" }, h)));
  const rows = KINDS.map((kind, k) => el("tr", {},
    el("td", {}, swatch(colours.causes[kind.colour]), kind.name),
    ...[0.5, 0.9, 0.99, 0.999].map((q) => el("td", { class: "n" }, time(quantile(shownSums.spread[k], q)))),
    el("td", { class: "n" }, time(shownSums.spread[k].max))));
  $("percentiles-table").replaceChildren(el("table", {}, el("thead", {}, head), el("tbody", {}, ...rows)));
}
