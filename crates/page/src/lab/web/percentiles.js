// The length of a turn by percentile, all arms over each other. Each step to the right has a tenth of the turns beyond it.

// Turns beyond a percentile without which it is no claim: crates/lab/src/summary.rs.
const BEYOND = 100;

// Corners of the curve: how many tenths remain, length.
function curve(histogram, total) {
  const points = [];
  let seen = 0;
  for (const [ns, n] of histogram) {
    const from = -Math.log10(1 - seen / total);
    seen += n;
    const to = seen < total ? -Math.log10(1 - seen / total) : Math.log10(total);
    points.push([from, Math.max(1, ns)], [Math.max(from, to), Math.max(1, ns)]);
  }
  return points;
}

// The part of a curve up to a place, and the part from there on.
function cutCurve(points, place) {
  const before = points.filter(([n]) => n <= place);
  const after = points.filter(([n]) => n > place);
  if (before.length && after.length) {
    const corner = [place, after[0][1]];
    return [[...before, corner], [corner, ...after]];
  }
  return [before, after];
}

const oneIn = (n) => (n === 0 ? "all" : n < 3 ? `1 in ${10 ** n}` : n < 6 ? `1 in ${10 ** (n - 3)}k` : n < 9 ? `1 in ${10 ** (n - 6)}M` : `1 in ${10 ** (n - 9)}G`);

const POWER = { bottom: 40, left: 58, right: 66, top: 12, height: 340 };

function turnCurves(experiment) {
  if (!experiment.curves) {
    experiment.curves = armsOf(experiment.result).flatMap((name) => {
      const histogram = [...(experiment.result.arms[name].histogram || [])].sort((a, b) => a[0] - b[0]);
      const total = sum(histogram.map(([, n]) => n));
      return total > 0 ? [{ name, total, points: curve(histogram, total) }] : [];
    });
  }
  return experiment.curves;
}

function drawPercentiles(experiment) {
  const figure = experiment.box.querySelector(".percentiles");
  const box = figure.querySelector(".plot");
  const curves = turnCurves(experiment);
  if (curves.length === 0) { notDrawn(experiment, figure, "distribution"); return; }
  const [width, height] = [box.clientWidth, POWER.height];
  const deepest = Math.max(1, ...curves.map((c) => Math.log10(c.total)));
  const range = decades(curves.flatMap((c) => c.points.map(([, v]) => v)));
  const plot = { left: POWER.left, right: width - POWER.right, top: POWER.top, bottom: height - POWER.bottom };
  const x = (n) => plot.left + (n / deepest) * (plot.right - plot.left);
  const y = logScale(range, plot.bottom, plot.top);
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": "length of a turn by percentile, for each arm; the table below has the figures" });
  const every = Math.ceil(62 / Math.max(1, x(1) - x(0)));
  percentileGrid(root, plot, x, y, { deepest, every, words: oneIn, range });
  root.append(svg("text", { x: POWER.left, y: height - 6 }, "turns at least so long: one in 1/(1−q)"));
  for (const c of curves) {
    const [firm, thin] = cutCurve(c.points, Math.log10(Math.max(1, c.total / BEYOND)));
    for (const [points, opacity, wide] of [[firm, 1, c.name === "real" ? 2.4 : 1.8], [thin, 0.45, 1]]) {
      root.append(svg("path", { d: pathOf(points, x, y), fill: "none", stroke: armColour(c.name), "stroke-width": wide, "stroke-dasharray": ARM_DASH[c.name], opacity }));
    }
  }
  endLabels(root, curves.map((c) => [...last(c.points), c.name, armColour(c.name)]), x, y);
  box.replaceChildren(root);
  box.onpointermove = (event) => curvesTip(event, experiment, box, deepest);
  box.onpointerleave = untip;
}

function curvesTip(event, experiment, box, deepest) {
  const n = ((at(box, event)[0] - POWER.left) / (box.clientWidth - POWER.left - POWER.right)) * deepest;
  if (n < 0 || n > deepest) { untip(); return; }
  const lines = turnCurves(experiment).map((c) => {
    const point = c.points.find(([to]) => to >= n);
    const few = n > Math.log10(c.total / BEYOND) ? `, fewer than ${BEYOND} beyond` : "";
    return el("div", {}, armKey(c.name), `${c.name}: ${point ? `${time(point[1])}${few}` : "–"}`);
  });
  const digits = Math.max(0, Math.ceil(n) - 1);
  tip(event, `${(100 - 10 ** (2 - n)).toFixed(digits)} % of turns are no longer than`, ...lines);
}

function percentilesText(experiment) {
  const figure = experiment.box.querySelector(".percentiles");
  figure.querySelector("figcaption span").textContent = `Turns of the victim’s loop, gaps included, but for those in which another thread ran. Lengths have two digits. Thin where fewer than ${BEYOND} turns lie beyond: no claim.`;
  figure.querySelector(".scroll").replaceChildren(turnsTable(experiment.result));
}
