// Who took the victim's time: the processes in rows, by class, and the victim in each arm in columns.

const WHO = { culprit: "the culprit", victim: "the victim’s own process", nobody: "no process" };

function whoWords({ who, comm }) {
  if (who === "daemon") return `${comm}, for the culprit`;
  return WHO[who] || comm || "other processes";
}

// A row for each process and class that an arm has, in the order of the arms' lists, of which each has the culprit first.
function takers(result) {
  const rows = new Map();
  for (const arm of SEEN) {
    for (const taken of (result.arms[arm] && result.arms[arm].by) || []) {
      const key = JSON.stringify([taken.who, taken.comm || "", taken.class]);
      if (!rows.has(key)) rows.set(key, { who: taken.who, comm: taken.comm || "", name: taken.class, arms: {}, most: 0 });
      const row = rows.get(key);
      const before = row.arms[arm] || { gaps: 0, share: 0 };
      row.arms[arm] = { gaps: before.gaps + taken.gaps, share: before.share + timeShare(result.arms[arm], taken.class, taken.ns) };
      row.most = Math.max(row.most, row.arms[arm].share);
    }
  }
  const order = ["culprit", "daemon", "victim", "other", "nobody"];
  return [...rows.values()].sort((a, b) => order.indexOf(a.who) - order.indexOf(b.who) || b.most - a.most);
}

const takenHeat = (share, most) => heat(0.08 + 0.92 * Math.sqrt(share / most));

function takenCell(row, arm, most) {
  const { gaps, share } = row.arms[arm] || { gaps: 0, share: 0 };
  const cell = el("td", { class: "n cell" }, `${count(share)} `, el("small", {}, plural(gaps, "gap")));
  const colour = gaps > 0 ? takenHeat(share, most) : colours.raised;
  cell.style.background = colour;
  cell.style.color = gaps > 0 ? inkOn(colour) : colours.soft;
  const cls = CLASSES[classOf(row.name)];
  cell.addEventListener("pointermove", (event) => tip(event, `${whoWords(row)} took ${count(share)} ppm of the victim’s time in ${arm}, in ${plural(gaps, "gap")}: ${cls.name}, ${cls.is}`));
  cell.addEventListener("pointerleave", untip);
  return cell;
}

function drawMatrix(experiment) {
  const figure = experiment.box.querySelector(".matrix");
  const rows = takers(experiment.result);
  if (rows.length === 0) {
    figure.querySelector(".scroll").replaceChildren(el("p", { class: "none-drawn" }, "This result does not say who made the victim’s gaps: a quell from before that was told wrote it, or it has none."));
    return;
  }
  const arms = SEEN.filter((name) => experiment.result.arms[name]);
  const most = Math.max(1, ...rows.map((row) => row.most));
  const head = el("tr", {}, el("th", { class: "name", scope: "col" }, "who, and why"), ...arms.map((name) => el("th", { class: "n", scope: "col" }, armKey(name), `victim, ${name}`)));
  const body = rows.map((row) => el("tr", {},
    el("th", { class: "name", scope: "row" }, markOf(classOf(row.name), true), `${whoWords(row)}: ${row.name}`),
    ...arms.map((arm) => takenCell(row, arm, most))));
  const table = el("table", { "aria-label": "who took the victim’s time" }, el("thead", {}, head), el("tbody", {}, ...body));
  figure.querySelector(".scroll").replaceChildren(table);
  const steps = [0.02, 0.25, 1].map((share) => el("span", {}, swatch(takenHeat(share * most, most)), count(share * most)));
  figure.querySelector(".legend").replaceChildren(...steps, el("span", { class: "dim" }, "ppm"));
}

function matrixText(experiment) {
  experiment.box.querySelector(".matrix figcaption span").textContent = `Rows are the processes that answer for gaps, by class; columns are the victim in each arm, over all valid blocks. The number is ppm of the victim’s time, and the ${colours.dark ? "brighter" : "darker"}, the more. In sham the culprit is that in another address space, in idle there is none. A process of several threads is one row.`;
}
