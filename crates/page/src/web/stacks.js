// Culprits' stacks as a flame graph: the process on top, its outermost function below, the cause at the bottom.

const WEIGHTS = { wait: WAIT, count: SHOOTDOWNS, stall: STALL };

// Numbers of frames below a node begin here, so that there is room for causes, mechanisms and parts.
const FRAMES_FROM = 256;

// The node of a stack below another node: its functions from the outermost inwards, or why there are none.
function stackNode(child, parent, stack) {
  if (stack === -2) return child(parent, 4194300, () => ({ label: "other stacks", kind: "none" }));
  if (stack < 0) return child(parent, 4194301, () => ({ label: "no stack", kind: "none" }));
  const chain = [];
  for (let at = stack; at >= 0; at = D.tree.parent[at]) chain.unshift(D.tree.frame[at]);
  return chain.reduce((node, frame) => child(node, FRAMES_FROM + frame, () => ({ label: D.frames[frame], kind: "frame" })), parent);
}

// The way to a box in words, without its middle where it is long.
function pathWords(F, path) {
  const inner = path.slice(1).map((id) => F.nodes[id].label);
  const short = inner.length > 6 ? [...inner.slice(0, 2), "…", ...inner.slice(-3)] : inner;
  return short.join(" › ") || "all";
}

// The whole tree, once.
const stackTree = (() => {
  const { nodes, child } = flameNodes();
  const leaf = new Uint32Array(T.sites.many);
  const pids = new Map();
  for (let i = 0; i < T.sites.many; i += 1) {
    const pid = D.sites.culprit[i];
    if (!pids.has(pid)) pids.set(pid, pids.size);
    const process = child(0, pids.get(pid), () => ({ label: processName(pid), kind: "process" }));
    const node = stackNode(child, process, D.sites.stack[i]);
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
  const all = F.value[0];
  $("flame-text").textContent = "Each row calls the one below it: process, its functions, the cause. " +
    `Widths are ${F.weight === "count" ? "numbers of shootdowns" : F.weight === "wait" ? "the culprits’ wait" : "the victims’ stall"}; a click zooms.`;
  $("unzoom").hidden = F.zoom === 0;
  $("path").textContent = `${pathWords(F, path)}: ${stackAmount(F.value[F.zoom])}${F.zoom && all > 0 ? `, ${percent(F.value[F.zoom] / all)} of all` : ""}`;
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
