// Victims' stall over time: a marker for each shootdown where they are few, else stacked bins.

const TIMELINE = { left: 64, right: 12, top: 10, bottom: 24, height: 220 };

// By cause, the stall in each bin.
const binStall = Array.from({ length: unpacked.causes.many }, (_, cause) => {
  const bins = new Float64Array(BINS);
  for (let c = unpacked.causes.start[cause]; c < unpacked.causes.start[cause + 1]; c += 1) {
    if (unpacked.causes.step[c] < BINS) bins[unpacked.causes.step[c]] += unpacked.causes.amounts[STALL][c];
  }
  return bins;
});
const binTotal = Float64Array.from({ length: BINS }, (_, b) => binStall.reduce((sum, bins) => sum + bins[b], 0));

const timelineWidth = (width) => width - TIMELINE.left - TIMELINE.right;
const timelineX = (width, bin) => TIMELINE.left + (bin / BINS) * timelineWidth(width);
const timelineBin = (width, x) => ((x - TIMELINE.left) / timelineWidth(width)) * BINS;

function drawTimeline(selection) {
  const canvas = $("timeline-plot");
  const { pen, width, height } = surface(canvas, TIMELINE.height);
  const bottom = height - TIMELINE.bottom;
  timeAxis(pen, width, bottom);
  if (pageData.shots) drawShots(pen, width, bottom);
  else drawBins(pen, width, bottom);
  if (selection) {
    const [a, b] = [selection.from, selection.to].map((s) => timelineX(width, s * pageData.bins_a_step));
    pen.fillStyle = colours.veil;
    pen.fillRect(TIMELINE.left, TIMELINE.top, a - TIMELINE.left, bottom - TIMELINE.top);
    pen.fillRect(b, TIMELINE.top, width - TIMELINE.right - b, bottom - TIMELINE.top);
    pen.strokeStyle = colours.accent;
    pen.lineWidth = 1.5;
    pen.strokeRect(a, TIMELINE.top, Math.max(1, b - a), bottom - TIMELINE.top);
  }
}

function timeAxis(pen, width, bottom) {
  const span = pageData.steps * STEP_NS;
  const step = roundStep(span, Math.max(2, Math.floor(width / 110)));
  pen.strokeStyle = colours.rule;
  pen.fillStyle = colours.soft;
  pen.lineWidth = 1;
  pen.textAlign = "center";
  pen.textBaseline = "top";
  for (let t = Math.ceil(pageData.origin_ns / step) * step; t <= pageData.origin_ns + span; t += step) {
    const x = Math.round(timelineX(width, (t - pageData.origin_ns) / pageData.bin_ns)) + 0.5;
    pen.beginPath();
    pen.moveTo(x, bottom);
    pen.lineTo(x, bottom + 4);
    pen.stroke();
    if (x > TIMELINE.left + 8 && x < width - 22) pen.fillText(shortTime(t), x, bottom + 7);
  }
  pen.beginPath();
  pen.moveTo(TIMELINE.left, bottom + 0.5);
  pen.lineTo(width - TIMELINE.right, bottom + 0.5);
  pen.stroke();
}

function valueTick(pen, width, y, text) {
  pen.strokeStyle = colours.rule;
  pen.beginPath();
  pen.moveTo(TIMELINE.left, Math.round(y) + 0.5);
  pen.lineTo(width - TIMELINE.right, Math.round(y) + 0.5);
  pen.stroke();
  pen.fillStyle = colours.soft;
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  pen.fillText(text, TIMELINE.left - 8, y);
}

function drawBins(pen, width, bottom) {
  const most = binTotal.reduce((a, b) => Math.max(a, b), 0) || 1;
  const tall = bottom - TIMELINE.top;
  const step = roundStep(most, 4);
  for (let v = step; v <= most; v += step) valueTick(pen, width, bottom - (v / most) * tall, shortTime(v));
  const base = new Float64Array(BINS);
  binStall.forEach((bins, cause) => {
    pen.fillStyle = causeColour(cause);
    for (let b = 0; b < BINS; b += 1) {
      if (bins[b] === 0) continue;
      const x = timelineX(width, b);
      const y = bottom - ((base[b] + bins[b]) / most) * tall;
      const thick = Math.max(1, timelineX(width, b + 1) - x - 0.25);
      pen.fillRect(x, y, thick, Math.max(0.5, (bins[b] / most) * tall));
      base[b] += bins[b];
    }
  });
}

// One by one they differ by orders of magnitude, so on a logarithmic scale.
const SHOT_RANGE = decades(pageData.shots ? pageData.shots.stall_ns : []);
const shotY = (bottom) => logScale(SHOT_RANGE, bottom - 4, TIMELINE.top + 4);
const shotAt = (width, bottom, i) => [timelineX(width, pageData.shots.t_ns[i] / pageData.bin_ns), shotY(bottom)(pageData.shots.stall_ns[i])];

function drawShots(pen, width, bottom) {
  for (const v of powers(SHOT_RANGE)) valueTick(pen, width, shotY(bottom)(v), shortTime(v));
  pen.globalAlpha = 0.75;
  for (let i = 0; i < pageData.shots.t_ns.length; i += 1) {
    const [x, y] = shotAt(width, bottom, i);
    pen.fillStyle = causeColour(pageData.shots.cause[i]);
    pen.beginPath();
    pen.arc(x, y, 2.6, 0, 7);
    pen.fill();
  }
  pen.globalAlpha = 1;
}

function drawLegend() {
  const named = pageData.causes.name.slice(0, CAUSE_COLOURS).map((name, i) => el("span", { title: pageData.causes.text[i] }, swatch(causeColour(i)), name));
  const rest = pageData.causes.name.length - CAUSE_COLOURS;
  if (rest > 0) named.push(el("span", { title: pageData.causes.name.slice(CAUSE_COLOURS).join(", ") }, swatch(colours["c-other"]), `${plural(rest, "other cause")}`));
  $("legend").replaceChildren(...named);
}

function timelineTip(event) {
  const canvas = $("timeline-plot");
  const [x, y] = at(canvas, event);
  const width = canvas.clientWidth;
  if (pageData.shots) return shotTip(event, x, y, width);
  const bin = Math.floor(timelineBin(width, x));
  if (!(bin >= 0 && bin < BINS) || binTotal[bin] === 0) return untip();
  const parts = binStall.map((bins, cause) => [bins[bin], cause]).filter(([n]) => n > 0).sort((a, b) => b[0] - a[0]);
  const lines = parts.slice(0, 8).map(([n, cause]) => el("div", {}, swatch(causeColour(cause)), `${time(n)} ${pageData.causes.name[cause]}`));
  return tip(event, `${shortTime(Math.max(0, pageData.origin_ns + bin * pageData.bin_ns))}: ${time(binTotal[bin])} of stall in ${time(pageData.bin_ns)}`, ...lines);
}

function shotTip(event, x, y, width) {
  const bottom = TIMELINE.height - TIMELINE.bottom;
  let best = -1;
  let near = 144;
  for (let i = 0; i < pageData.shots.t_ns.length; i += 1) {
    const [sx, sy] = shotAt(width, bottom, i);
    const far = (sx - x) ** 2 + (sy - y) ** 2;
    if (far < near) { near = far; best = i; }
  }
  if (best < 0) return untip();
  const s = pageData.shots;
  return tip(event,
    el("div", {}, swatch(causeColour(s.cause[best])), `${pageData.causes.name[s.cause[best]]} by ${processName(s.culprit[best])}`),
    `at ${time(pageData.origin_ns + s.t_ns[best])}: ${plural(s.victims[best], "victim")}, wait ${time(s.wait_ns[best])}, stall ${time(s.stall_ns[best])}`);
}

function timelineText() {
  const what = pageData.shots
    ? "Each shootdown by the stall of its victims, logarithmic, coloured by cause."
    : `The stall of all victims in each ${time(pageData.bin_ns)}, coloured by cause.`;
  $("timeline-text").textContent = `${what} A choice of time snaps to ${time(STEP_NS)}.`;
}
