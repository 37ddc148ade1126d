// A shape for each class, so that nobody needs its colour. Filled: the culprit had a part in it.

const SHAPES = {
  tlb: "M3 0A3 3 0 1 1 -3 0A3 3 0 1 1 3 0Z",
  fault: "M0 -3.6L3.6 2.8L-3.6 2.8Z",
  timer: "M-2.7 -2.7H2.7V2.7H-2.7Z",
  irq: "M0 -3.8L3.8 0L0 3.8L-3.8 0Z",
  callfn: "M-2.7 -2.7L2.7 2.7M-2.7 2.7L2.7 -2.7",
  sched: "M-4 -1.6H4V1.6H-4Z",
  none: "M-3 0H3M0 -3V3",
};
const PATHS = CLASSES.map((c) => new Path2D(SHAPES[c.name]));

// The pen at a place draws a mark there, and stays where it was.
function mark(pen, x, y, cls, filled) {
  pen.translate(x, y);
  if (filled) pen.fill(PATHS[cls]);
  else pen.stroke(PATHS[cls]);
  pen.translate(-x, -y);
}

function markOf(cls, filled) {
  const root = svg("svg", { viewBox: "-6 -6 12 12", width: 12, height: 12, class: "mark-of", "aria-hidden": "true" });
  const colour = classColour(cls);
  root.append(svg("path", { d: SHAPES[CLASSES[cls].name], fill: filled ? colour : "none", stroke: colour, "stroke-width": 1.2 }));
  return root;
}

// The classes that occur in some lists of gaps, in order: the class, how many others caused, how many the culprit.
function classesIn(lists) {
  const seen = CLASSES.map(() => [0, 0]);
  for (const gaps of lists) {
    for (let i = 0; i < gaps.n; i += 1) seen[gaps.cls[i]][gaps.caused[i]] += 1;
  }
  return seen.map(([others, mine], cls) => ({ cls, others, mine })).filter((s) => s.others + s.mine > 0);
}

// Its legend: a class by the culprit has another entry than the same class by others.
function marksLegend(lists) {
  const spans = [];
  for (const { cls, others, mine } of classesIn(lists)) {
    const title = CLASSES[cls].is;
    if (mine > 0) spans.push(el("span", { title }, markOf(cls, true), `${CLASSES[cls].name}, the culprit’s`));
    if (others > 0) spans.push(el("span", { title }, markOf(cls, false), mine > 0 ? `${CLASSES[cls].name}, by others` : CLASSES[cls].name));
  }
  return spans;
}
