// Tables: all experiments, the arms of one, its gaps by class, its percentiles. They also say
// the content of the pictures, for readers who can't see these.

// `cells` is the class of all but the first column: numbers, where nothing else is said.
function tableOf(caption, heads, rows, cells = "n") {
  const head = el("tr", {}, ...heads.map((h, i) => el("th", { class: i ? cells : "name", scope: "col" }, h)));
  const body = rows.map((row) => el("tr", {}, ...row.map((cell, i) => {
    const parts = Array.isArray(cell) ? cell : [cell];
    return i ? el("td", { class: cells }, ...parts) : el("th", { class: "name", scope: "row" }, ...parts);
  })));
  const table = el("table", {}, el("thead", {}, head), el("tbody", {}, ...body));
  table.setAttribute("aria-label", caption);
  return table;
}

const armsOf = (result) => ARMS.filter((name) => result.arms[name]);
const ran = (arm) => Math.max(1, arm.ran_ns);
const both = (arm) => Math.max(1, arm.ran_ns + arm.away_ns);
const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);

function armsTable(result) {
  const heads = ["arm", "blocks", "invalid", "ran", "operations/s", "op p50", "op p99", "shootdowns/s", "faults/s", "stall ppm"];
  const rows = armsOf(result).map((name) => {
    const arm = result.arms[name];
    // without the probe nobody knows
    const seen = (text) => (name === "untraced" ? "" : text);
    const rate = (n) => count((n * 1e9) / ran(arm));
    const first = [[armKey(name), name], count(arm.blocks), count(sum(Object.values(arm.invalid)))];
    // Nothing is known of an arm without a valid block.
    if (!arm.blocks) return [...first, ...heads.slice(first.length).map(() => "-")];
    return [
      ...first, seen(percent(arm.ran_ns / both(arm))),
      count((arm.ops * 1e9) / both(arm)), arm.op_ns ? time(arm.op_ns[0]) : "", arm.op_ns ? time(arm.op_ns[1]) : "",
      seen(rate(arm.caused)), seen(rate(arm.faults)), seen(count(arm.stall_ppm)),
    ];
  });
  return tableOf("arms", heads, rows);
}

// The line of an arm, as the percentiles draw it.
function armKey(name) {
  const root = svg("svg", { viewBox: "0 0 22 12", width: 22, height: 12, class: "mark-of", "aria-hidden": "true" });
  root.style.width = "22px";
  root.append(svg("line", { x1: 1, x2: 21, y1: 6, y2: 6, stroke: armColour(name), "stroke-width": 2.4, "stroke-dasharray": ARM_DASH[name] }));
  return root;
}

// ppm of the time for which the victim ran, and gaps a second. While another thread runs, the victim does not.
const timeShare = (arm, name, ns) => (ns * 1e6) / (name === "sched" ? both(arm) : ran(arm));
const classShare = (arm, name) => timeShare(arm, name, name === "sched" ? arm.away_ns : (arm.gaps[name] || [0, 0])[1]);

function classesTable(result) {
  const arms = SEEN.filter((name) => result.arms[name]);
  const heads = ["class", ...arms.flatMap((name) => [`${name}, ppm`, "gaps/s"])];
  const rows = CLASSES.map((c, cls) => [
    [markOf(cls, true), `${c.name}: ${c.is}`],
    ...arms.flatMap((name) => {
      const arm = result.arms[name];
      if (!arm.blocks) return ["-", "-"];
      return [count(classShare(arm, c.name)), count(((arm.gaps[c.name] || [0])[0] * 1e9) / ran(arm))];
    }),
  ]);
  return tableOf("gaps by class", heads, rows);
}

const TURNS = [["p50", "p50"], ["p90", "p90"], ["p99", "p99"], ["p999", "p99.9"], ["p9999", "p99.99"], ["p99999", "p99.999"]];

function turnsTable(result) {
  const rows = armsOf(result).map((name) => {
    const turn = result.arms[name].turn_ns;
    return [[armKey(name), name], ...TURNS.map(([key]) => (known(turn[key]) ? time(turn[key]) : "–"))];
  });
  return tableOf("length of a turn", ["arm", ...TURNS.map(([, text]) => text)], rows);
}

function overview(all) {
  const heads = ["experiment", "verdict", "control", "stall that the culprit caused, ppm", "95 %", "shootdowns/op", "each", "op p50"];
  const rows = all.map((experiment) => {
    const r = experiment.result;
    const e = r.effect;
    const real = r.arms.real;
    const of = [params(r), asleep(r) ? "victim asleep" : ""].filter(Boolean).join(", ");
    const spun = (text) => (asleep(r) ? "" : text);
    const counted = (text) => (e.stall_ppm.signs[1] ? spun(text) : "");
    return [
      [el("a", { href: `#${experiment.id}` }, r.experiment), of ? el("span", { class: "dim" }, ` ${of}`) : ""],
      WORD[r.verdict] || r.verdict, WORD[r.sham_verdict] || r.sham_verdict,
      counted(ppm(e.stall_ppm.difference)), counted(`${end(e.stall_ppm.ci95[0])} to ${end(e.stall_ppm.ci95[1])}`),
      known(r.shootdowns_per_op) ? perOp(r.shootdowns_per_op) : "", known(e.ns_per_event) ? spun(time(Math.round(e.ns_per_event))) : "",
      real && real.op_ns ? time(real.op_ns[0]) : "",
    ];
  });
  return [el("h2", {}, "All experiments"), tableOf("all experiments", heads, rows)];
}
