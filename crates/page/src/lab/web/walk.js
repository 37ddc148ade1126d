// Reading the timeline by mouse, finger or keyboard: which gap is where, and a closer look.

const NEAR = 12;

// The nearest gap to a place of the canvas.
function gapAt(experiment, canvas, [px, py]) {
  const place = gapsPlace(experiment, canvas.clientWidth);
  const panel = place.panels.find((p) => py >= p.top - 8 && py <= p.bottom + GAPS.strip + 8);
  if (!panel) return null;
  const { gaps } = experiment.lines[panel.arm];
  const y = logScale(gapsRange(experiment), panel.bottom, panel.top);
  let best = null;
  let near = NEAR * NEAR;
  for (let i = 0; i < gaps.n; i += 1) {
    const far = (place.x(gaps.begin[i]) - px) ** 2 + (y(gaps.ns[i]) - py) ** 2;
    if (far < near) { near = far; best = { arm: panel.arm, i }; }
  }
  return best;
}

// The operation under a place, if any.
function opAt(experiment, canvas, [px, py]) {
  const place = gapsPlace(experiment, canvas.clientWidth);
  const panel = place.panels.find((p) => py >= p.top - 8 && py <= p.bottom + GAPS.strip + 8);
  if (!panel) return null;
  const { ops } = experiment.lines[panel.arm];
  const [from, to] = [place.t(px), place.t(px + 1)];
  for (let i = 0; i < ops.n && ops.begin[i] < to; i += 1) {
    if (ops.end[i] > from) return `operation at ${precise(ops.begin[i])} of ${panel.arm}: ${time(ops.end[i] - ops.begin[i])}`;
  }
  return null;
}

function look(experiment, from, to) {
  const least = Math.min(experiment.span, 2000);
  const wide = Math.min(experiment.span, Math.max(least, to - from));
  const start = Math.max(0, Math.min(experiment.span - wide, (from + to - wide) / 2));
  experiment.view = { from: start, to: start + wide };
  drawGaps(experiment);
}

function walkGaps(experiment) {
  const canvas = experiment.box.querySelector(".gaps canvas");
  const chosen = experiment.box.querySelector(".chosen");
  if (!canvas) return;
  let anchor = null;
  const inside = (x) => Math.max(GAPS.left, Math.min(canvas.clientWidth - GAPS.right, x));
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || event.pointerType === "touch") return;
    anchor = inside(at(canvas, event)[0]);
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const spot = at(canvas, event);
    if (anchor === null) {
      const gap = gapAt(experiment, canvas, spot);
      const lines = [gap && gapWords(experiment, gap.arm, gap.i), opAt(experiment, canvas, spot)].filter(Boolean);
      return lines.length ? tip(event, ...lines) : untip();
    }
    const now = inside(spot[0]);
    untip();
    chosen.hidden = Math.abs(now - anchor) < 4;
    chosen.style.left = `${Math.min(anchor, now)}px`;
    chosen.style.width = `${Math.abs(now - anchor)}px`;
    return undefined;
  });
  canvas.addEventListener("pointerup", (event) => {
    if (anchor === null) return;
    const now = inside(at(canvas, event)[0]);
    const { t } = gapsPlace(experiment, canvas.clientWidth);
    if (!chosen.hidden) look(experiment, t(Math.min(anchor, now)), t(Math.max(anchor, now)));
    anchor = null;
    chosen.hidden = true;
  });
  canvas.addEventListener("pointercancel", () => { anchor = null; chosen.hidden = true; });
  canvas.addEventListener("pointerleave", untip);
  canvas.addEventListener("dblclick", () => look(experiment, 0, experiment.span));
  canvas.addEventListener("blur", () => { experiment.at = null; experiment.box.querySelector(".gaps .read").textContent = ""; drawGaps(experiment); });
  canvas.addEventListener("keydown", (event) => { if (walkKey(experiment, event.key)) event.preventDefault(); });
}

// What a key does; false if nothing.
function walkKey(experiment, key) {
  const { from, to } = experiment.view;
  if (key === "Escape") { look(experiment, 0, experiment.span); return true; }
  if (key === "+" || key === "=" || key === "-") {
    const middle = experiment.at ? experiment.lines[experiment.at.arm].gaps.begin[experiment.at.i] : (from + to) / 2;
    const half = ((to - from) / 2) * (key === "-" ? 2 : 0.5);
    look(experiment, middle - half, middle + half);
    return true;
  }
  const by = { ArrowLeft: -1, ArrowRight: 1 }[key];
  const arms = { ArrowUp: -1, ArrowDown: 1 }[key];
  if (!by && !arms) return false;
  const begin = experiment.at ? experiment.lines[experiment.at.arm].gaps.begin[experiment.at.i] : from;
  const shown = SEEN.filter((arm) => experiment.lines[arm].gaps.n > 0);
  if (shown.length === 0) return true;
  // without a gap chosen, the first of the real arm
  let now = experiment.at || { arm: shown[shown.length - 1], i: -1 };
  if (arms || now.i < 0) {
    const arm = shown[Math.max(0, Math.min(shown.length - 1, shown.indexOf(now.arm) + (arms || 0)))];
    const { gaps } = experiment.lines[arm];
    const next = gaps.begin.findIndex((t) => t >= begin);
    now = { arm, i: next < 0 ? gaps.n - 1 : next };
  } else {
    const { gaps } = experiment.lines[now.arm];
    now = { arm: now.arm, i: Math.max(0, Math.min(gaps.n - 1, now.i + by)) };
  }
  experiment.at = now;
  const t = experiment.lines[now.arm].gaps.begin[now.i];
  if (t < from || t > to) look(experiment, t - (to - from) / 2, t + (to - from) / 2);
  else drawGaps(experiment);
  experiment.box.querySelector(".gaps .read").textContent = gapWords(experiment, now.arm, now.i);
  return true;
}
