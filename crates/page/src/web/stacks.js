// Culprits' stacks as a flame graph: the process on top, its outermost function below, the cause at the bottom.

const WEIGHTS = { wait: WAIT, count: SHOOTDOWNS, stall: STALL };

// The whole tree, once.
const stackTree = (() => {
  const { nodes, child } = flameNodes();
  const leaf = new Uint32Array(T.sites.many);
  const pids = new Map();
  for (let i = 0; i < T.sites.many; i += 1) {
    const pid = D.sites.culprit[i];
    if (!pids.has(pid)) pids.set(pid, pids.size);
    let node = child(0, pids.get(pid), () => ({ label: processName(pid), kind: "process" }));
    const chain = [];
    for (let at = D.sites.stack[i]; at >= 0; at = D.tree.parent[at]) chain.push(D.tree.frame[at]);
    if (D.sites.stack[i] === -2) node = child(node, 4194300, () => ({ label: "other stacks", kind: "none" }));
    else if (chain.length === 0) node = child(node, 4194301, () => ({ label: "no stack", kind: "none" }));
    for (let c = chain.length - 1; c >= 0; c -= 1) node = child(node, 64 + chain[c], () => ({ label: D.frames[chain[c]], kind: "frame" }));
    const cause = D.sites.cause[i];
    leaf[i] = child(node, cause, () => ({ label: D.causes.name[cause], kind: "cause", cause }));
  }
  return { nodes, leaf };
})();
sortFlame(stackTree, flameValues(stackTree, sumSeries(T.sites, ALL)[SHOOTDOWNS]));

const F = flameOf($("flame-plot"), $("flame-read"), stackTree, stackWords, stackTexts);
F.weight = "wait";
F.sums = null;

function drawFlame(S) {
  F.value = flameValues(stackTree, S.sites[WEIGHTS[F.weight]]);
  F.sums = S;
  paintFlame(F);
}

const stackAmount = (value) => (F.weight === "count" ? plural(value, "shootdown") : `${time(value)} of ${F.weight === "wait" ? "wait" : "victims’ stall"}`);

function stackWords(id) {
  return `${F.nodes[id].label}: ${stackAmount(F.value[id])}, ${percent(F.value[0] > 0 ? F.value[id] / F.value[0] : 0)} of all`;
}

function stackTexts(path, wanted) {
  const { nodes } = F;
  const all = F.value[0];
  $("flame-text").textContent = "Each row calls the one below it: process, its functions, the cause. " +
    `Widths are ${F.weight === "count" ? "numbers of shootdowns" : F.weight === "wait" ? "the culprits’ wait" : "the victims’ stall"}; a click zooms.`;
  $("unzoom").hidden = F.zoom === 0;
  const inner = path.slice(1).map((id) => nodes[id].label);
  const short = inner.length > 6 ? [...inner.slice(0, 2), "…", ...inner.slice(-3)] : inner;
  $("path").textContent = `${short.join(" › ") || "all"}: ${stackAmount(F.value[F.zoom])}${F.zoom && all > 0 ? `, ${percent(F.value[F.zoom] / all)} of all` : ""}`;
  $("found").textContent = wanted ? foundWords(wanted, all) : "";
}

// The outermost match of each stack, so that nothing counts twice.
function foundWords(wanted, all) {
  const { nodes } = F;
  const within = new Uint8Array(nodes.length);
  let sum = 0;
  for (let n = 1; n < nodes.length; n += 1) {
    if (within[nodes[n].parent]) within[n] = 1;
    else if (nodes[n].label.toLowerCase().includes(wanted)) { within[n] = 1; sum += F.value[n]; }
  }
  return all > 0 ? `${percent(sum / all)} matches` : "";
}

function stackEvents() {
  flameEvents(F);
  $("unzoom").addEventListener("click", () => { zoomFlame(F, 0); F.canvas.focus(); });
  $("search").addEventListener("input", (event) => { F.search = event.target.value.trim(); paintFlame(F); });
  $("search").addEventListener("keydown", (event) => {
    if (event.key === "Escape") { event.target.value = ""; F.search = ""; paintFlame(F); }
  });
  for (const radio of document.querySelectorAll("input[name=weight]")) {
    radio.addEventListener("change", () => { F.weight = radio.value; drawFlame(F.sums); });
  }
}
