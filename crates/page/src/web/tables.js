// Tables of causes, culprits, victims and regions for the time that is chosen.

const TABLE_TOP = 10;
const opened = new Set();

// A phone has no room for the columns aside.
const cellClass = (c) => (c.name ? "name" : `n${c.bar ? " bar" : ""}${c.aside ? " aside" : ""}`);

// columns: [heading, text of a row, its number for a bar or null]
function table(id, title, columns, rows, redraw) {
  const most = columns.map((c) => (c.bar ? Math.max(1, ...rows.map(c.bar)) : 0));
  const shown = opened.has(id) ? rows : rows.slice(0, TABLE_TOP);
  const head = el("tr", {}, ...columns.map((c) => el("th", { class: cellClass(c), scope: "col" }, c.head)));
  const body = shown.map((row) => el("tr", {}, ...columns.map((c, i) => {
    const text = c.text(row);
    const cell = el("td", { class: cellClass(c) }, ...(Array.isArray(text) ? text : [text]));
    if (c.bar) cell.style.backgroundSize = `calc((100% - .9rem) * ${(c.bar(row) / most[i]).toFixed(4)}) 72%`;
    return cell;
  })));
  const parts = [el("h2", {}, title), el("table", {}, el("thead", {}, head), el("tbody", {}, ...body))];
  if (rows.length > TABLE_TOP) {
    const open = opened.has(id);
    const toggle = () => { if (open) opened.delete(id); else opened.add(id); redraw(); };
    parts.push(el("button", { class: "more", type: "button", onclick: toggle }, open ? "fewer" : `and ${count(rows.length - TABLE_TOP)} more`));
  }
  $(id).replaceChildren(...parts);
}

const number = (head, a) => ({ head, text: (r) => count(r.n[a]) });
const duration = (head, a) => ({ head, text: (r) => time(r.n[a]) });
const barred = (column, a) => ({ ...column, bar: (r) => r.n[a] });
const named = (head, text) => ({ head, text, name: true });

function drawTables(shownSums, redraw) {
  const four = [barred(number("shootdowns", SHOOTDOWNS), SHOOTDOWNS), { ...number("victims", VICTIMS), aside: true }, duration("wait", WAIT), duration("stall", STALL)];
  table("causes", "Why: causes", [...four, named("cause", (r) => [swatch(causeColour(r.key)), el("span", { title: pageData.causes.text[r.key] }, pageData.causes.name[r.key])])], shownSums.causes, redraw);
  table("culprits", "Who: culprits", [...four, named("process", (r) => processName(r.key))], shownSums.culprits, redraw);
  table("regions", "Where: regions", [...four, named("region", (r) => regionName(r.key))], shownSums.regions, redraw);
  table("victims", "At whom: victims", [
    barred(number("hits", 0), 0),
    duration("stall", 1),
    { head: "as bystander", text: (r) => (r.bystander > 0 ? percent(r.bystander / r.n[0]) : "–") },
    named("process", (r) => processName(r.key)),
  ], victimRows(shownSums), redraw);
  table("pairs", "Who at whom", [
    barred(number("hits", 0), 0),
    duration("stall", 1),
    named("culprit → victim", (r) => [`${processName(r.culprit)} → `, r.victim === r.culprit && r.victim > 0 ? el("span", { class: "dim" }, "its own threads") : processName(r.victim)]),
  ], pairRows(shownSums), redraw);
}

function victimRows(shownSums) {
  const bystander = new Map();
  pageData.pairs.victim.forEach((victim, i) => {
    if (pageData.pairs.bystander[i]) bystander.set(victim, (bystander.get(victim) || 0) + shownSums.pairs[0][i]);
  });
  return shownSums.victims.map((row) => ({ ...row, bystander: bystander.get(row.key) || 0 }));
}

function pairRows(shownSums) {
  const rows = new Map();
  pageData.pairs.victim.forEach((victim, i) => {
    if (shownSums.pairs[0][i] === 0) return;
    const culprit = pageData.pairs.culprit[i];
    const key = `${culprit} ${victim}`;
    const row = rows.get(key) || { culprit, victim, n: [0, 0] };
    row.n[0] += shownSums.pairs[0][i];
    row.n[1] += shownSums.pairs[1][i];
    rows.set(key, row);
  });
  return [...rows.values()].sort((a, b) => b.n[0] - a.n[0] || b.n[1] - a.n[1]);
}
