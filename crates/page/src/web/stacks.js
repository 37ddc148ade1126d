// Culprits' stacks as a flame graph: the process on top, its outermost function below, the cause at the bottom.

const WEIGHTS = { wait: WAIT, count: SHOOTDOWNS, stall: STALL };

// Numbers of frames below a node begin here, so that there is room for causes, mechanisms and parts.
const FRAMES_FROM = 256;

// The node of a stack below another node: its functions from the outermost inwards, or why there are none.
function stackNode(child, parent, stack) {
  if (stack === -2) return child(parent, 4194300, () => ({ label: "other stacks", kind: "none" }));
  if (stack < 0) return child(parent, 4194301, () => ({ label: "no stack", kind: "none" }));
  const chain = [];
  for (let at = stack; at >= 0; at = pageData.tree.parent[at]) chain.unshift(pageData.tree.frame[at]);
  return chain.reduce((node, frame) => child(node, FRAMES_FROM + frame, () => ({ label: pageData.frames[frame], kind: "frame" })), parent);
}

// The way to a box in words, without its middle where it is long.
function pathWords(stackGraph, path) {
  const inner = path.slice(1).map((id) => stackGraph.nodes[id].label);
  const short = inner.length > 6 ? [...inner.slice(0, 2), "…", ...inner.slice(-3)] : inner;
  return short.join(" › ") || "all";
}

// The whole tree, once.
const stackTree = (() => {
  const { nodes, child } = flameNodes();
  const leaf = new Uint32Array(unpacked.sites.many);
  const pids = new Map();
  for (let i = 0; i < unpacked.sites.many; i += 1) {
    const pid = pageData.sites.culprit[i];
    if (!pids.has(pid)) pids.set(pid, pids.size);
    const process = child(0, pids.get(pid), () => ({ label: processName(pid), kind: "process" }));
    const node = stackNode(child, process, pageData.sites.stack[i]);
    const cause = pageData.sites.cause[i];
    leaf[i] = child(node, cause, () => ({ label: pageData.causes.name[cause], kind: "cause", cause }));
  }
  return { nodes, leaf };
})();
sortFlame(stackTree, flameValues(stackTree, sumSeries(unpacked.sites, ALL)[SHOOTDOWNS]));

const stackGraph = flameOf($("flame-plot"), $("flame-read"), stackTree, stackWords, stackTexts);
stackGraph.weight = "wait";
stackGraph.sums = null;

function drawFlame(shownSums) {
  stackGraph.value = flameValues(stackTree, shownSums.sites[WEIGHTS[stackGraph.weight]]);
  stackGraph.sums = shownSums;
  paintFlame(stackGraph);
}

const stackAmount = (value) => (stackGraph.weight === "count" ? plural(value, "shootdown") : `${time(value)} of ${stackGraph.weight === "wait" ? "wait" : "victims’ stall"}`);

function stackWords(id) {
  return `${stackGraph.nodes[id].label}: ${stackAmount(stackGraph.value[id])}, ${percent(stackGraph.value[0] > 0 ? stackGraph.value[id] / stackGraph.value[0] : 0)} of all`;
}

function stackTexts(path, wanted) {
  const all = stackGraph.value[0];
  $("flame-text").textContent = "Each row calls the one below it: process, its functions, the cause. " +
    `Widths are ${stackGraph.weight === "count" ? "numbers of shootdowns" : stackGraph.weight === "wait" ? "the culprits’ wait" : "the victims’ stall"}; a click zooms.`;
  $("unzoom").hidden = stackGraph.zoom === 0;
  $("path").textContent = `${pathWords(stackGraph, path)}: ${stackAmount(stackGraph.value[stackGraph.zoom])}${stackGraph.zoom && all > 0 ? `, ${percent(stackGraph.value[stackGraph.zoom] / all)} of all` : ""}`;
  $("found").textContent = wanted ? foundWords(wanted, all) : "";
}

// The outermost match of each stack, so that nothing counts twice.
function foundWords(wanted, all) {
  const { nodes } = stackGraph;
  const within = new Uint8Array(nodes.length);
  let sum = 0;
  for (let n = 1; n < nodes.length; n += 1) {
    if (within[nodes[n].parent]) within[n] = 1;
    else if (nodes[n].label.toLowerCase().includes(wanted)) { within[n] = 1; sum += stackGraph.value[n]; }
  }
  return all > 0 ? `${percent(sum / all)} matches` : "";
}

function stackEvents() {
  flameEvents(stackGraph);
  $("unzoom").addEventListener("click", () => { zoomFlame(stackGraph, 0); stackGraph.canvas.focus(); });
  $("search").addEventListener("input", (event) => { stackGraph.search = event.target.value.trim(); paintFlame(stackGraph); });
  $("search").addEventListener("keydown", (event) => {
    if (event.key === "Escape") { event.target.value = ""; stackGraph.search = ""; paintFlame(stackGraph); }
  });
  for (const radio of document.querySelectorAll("input[name=weight]")) {
    radio.addEventListener("change", () => { stackGraph.weight = radio.value; drawFlame(stackGraph.sums); });
  }
}
