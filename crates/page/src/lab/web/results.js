// Results as quell wrote them (quell/lab/1), with their timelines unpacked. crates/page/src/lab/pack.rs packs them.

const pageData = JSON.parse($("data").textContent);

// Arms in the order in which they are shown; and those with timelines whose gaps the probe has classified.
const ARMS = ["idle", "sham", "real", "untraced"];
const SEEN = ["idle", "sham", "real"];

// Classes in the order in which they are shown. The last also stands for classes of a newer quell.
const CLASSES = [
  { name: "tlb", is: "a shootdown", colour: 0 },
  { name: "fault", is: "a page fault", colour: 3 },
  { name: "timer", is: "the CPU’s timer", colour: 2 },
  { name: "irq", is: "another interrupt", colour: 1 },
  { name: "callfn", is: "another function that a CPU asked for", colour: 4 },
  { name: "sched", is: "another thread ran", colour: 5 },
  { name: "none", is: "nothing that the kernel knows of", colour: 7 },
];
const NONE = CLASSES.length - 1;
const classOf = (name) => {
  const at = CLASSES.findIndex((c) => c.name === name);
  return at < 0 ? NONE : at;
};
const CLASS_OF = pageData.classes.map(classOf);
const classColour = (cls) => causeColour(CLASSES[cls].colour);

// This many gaps and operations of a block are kept: crates/lab/src/summary.rs.
const KEPT = 4000;

function unpackGaps(base64) {
  const next = reader(base64 || "AA==");
  const n = next();
  const gaps = { n, begin: new Float64Array(n), ns: new Float64Array(n), cls: new Uint8Array(n), caused: new Uint8Array(n) };
  let at = 0;
  for (let i = 0; i < n; i += 1) {
    at += next();
    gaps.begin[i] = at;
    gaps.ns[i] = next();
    const word = next();
    gaps.cls[i] = CLASS_OF[Math.floor(word / 2)];
    gaps.caused[i] = word % 2;
  }
  return gaps;
}

function unpackOps(base64) {
  const next = reader(base64 || "AA==");
  const n = next();
  const ops = { n, begin: new Float64Array(n), end: new Float64Array(n) };
  let at = 0;
  for (let i = 0; i < n; i += 1) {
    at += next();
    ops.begin[i] = at;
    ops.end[i] = at + next();
  }
  return ops;
}

const last = (list) => (list.length ? list[list.length - 1] : 0);

// The columns, cut before a time.
function until(columns, time) {
  const past = columns.begin.findIndex((t) => t >= time);
  const n = past < 0 ? columns.n : past;
  return Object.fromEntries(Object.entries(columns).map(([key, list]) => [key, key === "n" ? n : list.subarray(0, n)]));
}

// One experiment: the result, the timelines by arm for as long as all of them are known, and all that is kept of gaps.
function unpackExperiment(result, index) {
  const lines = {};
  let whole = 0;
  let known = Infinity;
  for (const name of SEEN) {
    const arm = result.arms[name];
    const gaps = unpackGaps(arm && arm.timeline);
    const ops = unpackOps(arm && arm.timeline_ops);
    lines[name] = { gaps, ops };
    whole = Math.max(whole, last(gaps.begin) + last(gaps.ns), last(ops.end));
    // gaps chosen among all of the block leave no end of it out
    if (gaps.n >= KEPT && !(arm && arm.timeline_of)) known = Math.min(known, last(gaps.begin));
    if (ops.n >= KEPT) known = Math.min(known, last(ops.end));
  }
  const span = Math.min(whole, known);
  for (const line of Object.values(lines)) {
    line.kept = line.gaps;
    if (known < whole) Object.assign(line, { gaps: until(line.gaps, span), ops: until(line.ops, span) });
  }
  return { result, beside: pageData.beside[index], lines, span, cut: known < whole, id: `experiment-${index + 1}`, view: { from: 0, to: span }, at: null };
}

// A victim that sleeps has no turns, and so no gaps: whatever a result says of them is not about it.
const asleep = (result) => result.victim === "sleep";

const ARM_DASH = { idle: "2 3", sham: "7 3", real: "", untraced: "6 5 1 5" };
const armColour = (name) => colours[`arm-${name}`];

// The colours that only this page has.
COLOUR_NAMES.push("arm-idle", "arm-sham", "arm-real", "arm-untraced", "op");
