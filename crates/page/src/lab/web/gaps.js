// The victim's gaps over time, arm under arm on the same scales, with the culprit's operations as bands.

const GAPS = { left: 58, right: 10, top: 20, panel: 150, strip: 9, between: 26, bottom: 22 };

// The places of the panels, and the arms that they show.
function gapsPlace(experiment, width) {
  const panels = SEEN.map((arm, i) => {
    const top = GAPS.top + i * (GAPS.panel + GAPS.between);
    return { arm, top, bottom: top + GAPS.panel - GAPS.strip - 3, strip: top + GAPS.panel - GAPS.strip };
  });
  const box = { left: GAPS.left, right: width - GAPS.right, bottom: GAPS.top + SEEN.length * (GAPS.panel + GAPS.between) - GAPS.between };
  const { from, to } = experiment.view;
  const x = (t) => box.left + ((t - from) / (to - from)) * (box.right - box.left);
  const t = (place) => from + ((place - box.left) / (box.right - box.left)) * (to - from);
  return { panels, box, x, t };
}

const gapsRange = (experiment) => {
  if (!experiment.range) experiment.range = decades(SEEN.flatMap((arm) => Array.from(experiment.lines[arm].kept.ns)));
  return experiment.range;
};

function drawGaps(experiment) {
  const canvas = experiment.box.querySelector(".gaps canvas");
  if (!canvas) return;
  const tall = GAPS.top + SEEN.length * (GAPS.panel + GAPS.between) - GAPS.between + GAPS.bottom;
  const { pen, width } = surface(canvas, tall);
  const place = gapsPlace(experiment, width);
  const range = gapsRange(experiment);
  for (const panel of place.panels) {
    const box = { ...place.box, top: panel.top, bottom: panel.bottom };
    drawOps(pen, experiment, panel, place);
    leftAxis(pen, range, box);
    pen.save();
    pen.beginPath();
    pen.rect(box.left - 1, panel.top - 6, box.right - box.left + 2, GAPS.panel + 8);
    pen.clip();
    drawMarks(pen, experiment, panel, place, range);
    pen.restore();
    pen.fillStyle = colours.ink;
    pen.textAlign = "left";
    pen.textBaseline = "alphabetic";
    pen.font = "600 12px system-ui, sans-serif";
    pen.fillText(panel.arm, box.left, panel.top - 7);
    pen.font = "11px system-ui, sans-serif";
  }
  bottomAxis(pen, experiment.view.from, experiment.view.to, place.box);
}

// Each column's share of time in which an operation was under way, as a tint over the panel and a strip below it.
function drawOps(pen, experiment, panel, { box, t }) {
  const { ops } = experiment.lines[panel.arm];
  pen.fillStyle = colours.raised;
  pen.fillRect(box.left, panel.strip, box.right - box.left, GAPS.strip);
  if (ops.n === 0) return;
  pen.fillStyle = colours.op;
  let i = 0;
  for (let column = box.left; column < box.right; column += 1) {
    const [from, to] = [t(column), t(column + 1)];
    while (i < ops.n && ops.end[i] <= from) i += 1;
    let within = 0;
    for (let k = i; k < ops.n && ops.begin[k] < to; k += 1) within += Math.min(to, ops.end[k]) - Math.max(from, ops.begin[k]);
    const share = Math.min(1, within / (to - from));
    if (share <= 0) continue;
    pen.globalAlpha = 0.22 * share;
    pen.fillRect(column, panel.top, 1, panel.bottom - panel.top);
    pen.globalAlpha = 0.25 + 0.75 * share;
    pen.fillRect(column, panel.strip, 1, GAPS.strip);
  }
  pen.globalAlpha = 1;
}

function drawMarks(pen, experiment, panel, { box, x }, range) {
  const { gaps } = experiment.lines[panel.arm];
  const y = logScale(range, panel.bottom, panel.top);
  pen.lineWidth = 1.2;
  // by class, so that the pen changes its colour seldom, and the rare lie above the many
  const order = classesIn([gaps]).sort((a, b) => b.mine + b.others - a.mine - a.others);
  for (const { cls } of order) {
    pen.fillStyle = classColour(cls);
    pen.strokeStyle = classColour(cls);
    pen.globalAlpha = gaps.n > 1500 ? 0.6 : 0.85;
    for (let i = 0; i < gaps.n; i += 1) {
      if (gaps.cls[i] !== cls) continue;
      const [left, right] = [x(gaps.begin[i]), x(gaps.begin[i] + gaps.ns[i])];
      if (right < box.left - 5 || left > box.right + 5) continue;
      const high = y(gaps.ns[i]);
      if (right - left > 7) pen.fillRect(left, high - 1, right - left, 2);
      mark(pen, left, high, cls, gaps.caused[i] === 1);
    }
  }
  pen.globalAlpha = 1;
  if (experiment.at && experiment.at.arm === panel.arm) {
    pen.strokeStyle = colours.accent;
    pen.lineWidth = 2;
    pen.beginPath();
    pen.arc(x(gaps.begin[experiment.at.i]), y(gaps.ns[experiment.at.i]), 7, 0, 7);
    pen.stroke();
  }
}

// A gap in words: its time, its length, its class.
function gapWords(experiment, arm, i) {
  const { gaps } = experiment.lines[arm];
  const c = CLASSES[gaps.cls[i]];
  const by = gaps.caused[i] ? ", by the culprit" : "";
  return `${time(gaps.ns[i])} at ${precise(gaps.begin[i])} of ${arm}: ${c.name}, ${c.is}${by}`;
}

// Times in a block, fine enough to tell neighbours apart.
const precise = (ns) => (ns >= 1e6 ? `${(ns / 1e6).toFixed(4)} ms` : `${(ns / 1e3).toFixed(2)} µs`);

function gapsText(experiment) {
  const text = experiment.box.querySelector(".gaps figcaption span");
  const canvas = experiment.box.querySelector(".gaps canvas");
  const cut = experiment.cut ? ` The first ${time(experiment.span)} of a block, for which all three arms are kept.` : "";
  const chosen = SEEN.filter((arm) => (experiment.result.arms[arm] || {}).timeline_of).map((arm) => ` Of the ${count(experiment.result.arms[arm].timeline_of)} gaps of ${arm} only the culprit’s and the longest are drawn, ${count(experiment.lines[arm].gaps.n)} in all.`).join("");
  text.textContent = `One block of each arm, the one with the middle stall, on the same scales: each mark is a gap, its length logarithmic, its shape and colour the class. Bands, and the strip below, are the culprit’s operations.${cut}${chosen}`;
  const said = SEEN.map((arm) => {
    const parts = classesIn([experiment.lines[arm].gaps]).map(({ cls, others, mine }) => `${count(others + mine)} ${CLASSES[cls].name}`);
    return `${arm}: ${parts.join(", ") || "no gap"}, ${plural(experiment.lines[arm].ops.n, "operation")}`;
  });
  canvas.setAttribute("aria-label", `Gaps of the victim over ${time(experiment.span)}; ${said.join("; ")}. Arrow keys read them one by one.`);
}
