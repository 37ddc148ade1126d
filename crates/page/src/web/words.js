// The answer in words: culprits, victims, causes, numbers and costs.

const bold = (text) => el("b", {}, text);

function drawWords(shownSums) {
  const [shootdowns, victims, wait, stall] = shownSums.total;
  const box = $("answer");
  if (shootdowns === 0) {
    box.replaceChildren(el("p", {}, shownSums.range === ALL ? "No shootdown was recorded." : "No shootdown in this time."));
    return;
  }
  box.replaceChildren(el("p", {}, ...firstCulprit(shownSums)), el("p", {}, ...whomItHit(shownSums)), el("p", {}, ...inAll(shownSums, shootdowns, victims, wait, stall)));
}

// The culprit with the most shootdowns, its first cause, and the first region of that.
function firstCulprit(shownSums) {
  const [n] = shownSums.total;
  const first = shownSums.culprits[0];
  const mine = shownSums.sites.map((sum) => sum.map((v, i) => (pageData.sites.culprit[i] === first.key ? v : 0)));
  const cause = group(mine, pageData.sites.cause)[0];
  const ofCause = mine.map((sum) => sum.map((v, i) => (pageData.sites.cause[i] === cause.key ? v : 0)));
  const region = group(ofCause, pageData.sites.region)[0];
  const share = first.n[SHOOTDOWNS] < n ? `, ${percent(first.n[SHOOTDOWNS] / n)} of all` : "";
  return [
    bold(processName(first.key)), " made ", bold(plural(first.n[SHOOTDOWNS], "shootdown")), ` in ${time(shownSums.ns)}${share}: `,
    `${percent(cause.n[SHOOTDOWNS] / first.n[SHOOTDOWNS])} by `, bold(pageData.causes.name[cause.key]),
    `, most of these in ${regionName(region.key)}. It waited ${time(first.n[WAIT])} for them.`,
  ];
}

function whomItHit(shownSums) {
  const culprit = shownSums.culprits[0].key;
  const mine = shownSums.pairs.map((sum) => sum.map((v, i) => (pageData.pairs.culprit[i] === culprit ? v : 0)));
  const hit = group(mine, pageData.pairs.victim);
  if (hit.length === 0) return ["Whom they hit is not known."];
  const others = hit.filter((v) => v.key !== culprit && v.key !== 0).sort((a, b) => b.n[1] - a.n[1]);
  const own = hit.find((v) => v.key === culprit);
  const words = [];
  if (others.length > 0) {
    const worst = others[0];
    const asBystander = mine[0].reduce((sum, v, i) => sum + (pageData.pairs.victim[i] === worst.key && pageData.pairs.bystander[i] ? v : 0), 0);
    words.push("They stalled ", bold(processName(worst.key)), " for ", bold(time(worst.n[1])), ` in ${plural(worst.n[0], "hit")}`);
    if (asBystander > 0) words.push(asBystander === worst.n[0] ? ", a bystander every time" : `, a bystander in ${count(asBystander)} of them`);
    if (others.length > 1) {
      const rest = others.slice(1).reduce((sum, v) => sum + v.n[1], 0);
      words.push(`, and ${plural(others.length - 1, "other process").replace("processs", "processes")} for ${time(rest)}`);
    }
    if (own) words.push(`; its own threads for ${time(own.n[1])}`);
    words.push(".");
  } else if (own) {
    words.push("They stalled ", bold("its own threads"), " for ", bold(time(own.n[1])), ` in ${plural(own.n[0], "hit")}, and no other process.`);
  } else {
    words.push("They hit idle CPUs only.");
  }
  return words;
}

function inAll(shownSums, shootdowns, victims, wait, stall) {
  const bystanders = shownSums.pairs[0].reduce((sum, v, i) => sum + (pageData.pairs.bystander[i] ? v : 0), 0);
  const rate = shownSums.ns > 0 ? ` (${count((shootdowns * 1e9) / shownSums.ns)} a second)` : "";
  return [
    `In all, ${plural(shownSums.culprits.length, "culprit")} made ${plural(shootdowns, "shootdown")}${rate} with ${plural(victims, "victim")}`,
    bystanders > 0 ? `, ${percent(bystanders / victims)} of them bystanders` : "",
    `: culprits waited ${time(wait)}, victims were stalled for ${time(stall)}.`,
  ];
}

// What was lost, cut or folded.
function drawNotes() {
  const all = sumSeries(unpacked.sites, ALL);
  const shootdowns = all[SHOOTDOWNS].reduce((a, b) => a + b, 0);
  const notes = [];
  const missing = pageData.counted.shootdowns - shootdowns;
  if (missing > 0) notes.push(["warn", `${count(pageData.counted.shootdowns)} shootdowns were counted; ${count(missing)} of them have no record, and are in no figure on this page.`]);
  if (pageData.counted.lost > 0) notes.push(["warn", `${plural(pageData.counted.lost, "record")} lost: figures are too low by so much.`]);
  else if (!pageData.counted.lost_known) notes.push(["warn", "What was lost is not known."]);
  else notes.push(["", "Nothing was lost."]);
  if (pageData.counted.lost_stacks > 0) notes.push(["", `${plural(pageData.counted.lost_stacks, "stack")} could not be kept.`]);
  if (pageData.counted.unseen > 0) notes.push(["", `${plural(pageData.counted.unseen, "victim")} counted but not seen in the handler: no delay and stall of these, and they are not in the matrix.`]);
  if (pageData.folded.sites > 0) {
    const other = all[SHOOTDOWNS].reduce((sum, n, i) => sum + (pageData.sites.stack[i] === -2 || pageData.sites.culprit[i] < 0 || pageData.sites.region[i] < 0 ? n : 0), 0);
    notes.push(["", `To keep the page small, the ${count(pageData.folded.sites)} rarest combinations of process, region and stack are shown as “other stacks”: ${percent(other / shootdowns)} of the shootdowns. Causes are exact.`]);
  }
  if (pageData.folded.pairs > 0) notes.push(["", `The ${count(pageData.folded.pairs)} rarest pairs of culprit and victim are shown as “other processes”.`]);
  if (pageData.matrix.group > 1) notes.push(["", `Each row and column of the matrix is ${pageData.matrix.group} CPUs.`]);
  for (const note of pageData.notes) notes.push(["", note]);
  $("notes").replaceChildren(...notes.map(([kind, text]) => el("li", { class: kind }, text)));
}
