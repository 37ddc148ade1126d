// Choosing a time on the timeline, by mouse, finger or keyboard.

let selection = null;

function brush(changed) {
  const canvas = $("timeline-plot");
  let anchor = null;

  const choose = (from, to) => {
    const a = Math.max(0, Math.min(pageData.steps, from));
    const b = Math.max(0, Math.min(pageData.steps, to));
    const next = b - a < 1 ? null : { from: a, to: b };
    if (JSON.stringify(next) === JSON.stringify(selection)) return;
    selection = next;
    changed();
  };
  const clear = () => choose(0, 0);
  const stepAt = (event) => timelineBin(canvas.clientWidth, at(canvas, event)[0]) / pageData.bins_a_step;

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    anchor = { x: event.clientX, step: stepAt(event), moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!anchor) return timelineTip(event);
    // a click that trembles is no drag
    if (!anchor.moved && Math.abs(event.clientX - anchor.x) < 4) return undefined;
    anchor.moved = true;
    untip();
    const ends = [anchor.step, stepAt(event)].sort((a, b) => a - b);
    return choose(Math.floor(ends[0]), Math.max(Math.floor(ends[0]) + 1, Math.ceil(ends[1])));
  });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { anchor = null; });
  canvas.addEventListener("pointerleave", untip);
  canvas.addEventListener("dblclick", clear);
  $("clear").addEventListener("click", () => { clear(); canvas.focus(); });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && event.target.id !== "search") clear();
  });
  canvas.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const first = Math.max(1, Math.round(pageData.steps / 16));
    if (!selection) choose(by > 0 ? 0 : pageData.steps - first, by > 0 ? first : pageData.steps);
    else if (event.shiftKey) choose(selection.from, Math.max(selection.from + 1, selection.to + by));
    else if (selection.from + by >= 0 && selection.to + by <= pageData.steps) choose(selection.from + by, selection.to + by);
  });
}

function drawSelected() {
  $("selected").hidden = !selection;
  if (!selection) return;
  const [from, to] = [selection.from, selection.to].map(stepTime);
  $("range").textContent = `Only ${time(Math.max(0, from))} to ${time(to)} counts: ${time(to - from)} of ${time(pageData.to_ns - pageData.from_ns)}.`;
}
