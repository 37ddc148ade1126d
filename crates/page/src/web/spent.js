// The time of memory management as a flame graph: the process on top, its outermost function below, the mechanism and its
// part at the bottom. It is of the whole trace, as the account is.

const spentTree = pageData.spent && (() => {
  const spent = pageData.spent;
  const { nodes, child } = flameNodes();
  const leaf = new Uint32Array(spent.pid.length);
  const pids = new Map();
  for (let i = 0; i < spent.pid.length; i += 1) {
    const pid = spent.pid[i];
    if (!pids.has(pid)) pids.set(pid, pids.size);
    const process = child(0, pids.get(pid), () => ({ label: `${spent.processes[pid] || "?"} (${pid})`, kind: "process" }));
    const mechanism = spent.mechanism[i];
    const node = child(stackNode(child, process, spent.stack[i]), mechanism, () => ({ label: spent.mechanisms[mechanism], kind: "cause", cause: mechanism }));
    const part = spent.part[i];
    leaf[i] = part < 0 ? node : child(node, 128 + part, () => ({ label: spent.parts[part], kind: "cause", cause: mechanism }));
  }
  return { nodes, leaf };
})();

const SPENT = { cpu: ["cpu_ns", "CPU time"], blocked: ["blocked_ns", "time asleep"] };

function spentFlame() {
  if (!spentTree) { $("spent").hidden = true; return null; }
  const spent = pageData.spent;
  sortFlame(spentTree, flameValues(spentTree, spent.cpu_ns.map((ns, i) => ns + spent.blocked_ns[i])));
  const graph = flameOf($("spent-plot"), $("spent-read"), spentTree, spentWords, spentTexts);
  const sum = (of) => of.reduce((a, b) => a + b, 0);
  // The weight that the reader most likely wants: in most programs no thread sleeps here.
  graph.weight = sum(spent.blocked_ns) > sum(spent.cpu_ns) ? "blocked" : "cpu";
  for (const radio of document.querySelectorAll("input[name=spent-weight]")) {
    radio.checked = radio.value === graph.weight;
    radio.addEventListener("change", () => { graph.weight = radio.value; drawSpent(graph); });
  }
  flameEvents(graph);
  $("spent-unzoom").addEventListener("click", () => { zoomFlame(graph, 0); graph.canvas.focus(); });

  function amount(id) {
    return `${time(graph.value[id])} of ${SPENT[graph.weight][1]}`;
  }
  function spentWords(id) {
    return `${graph.nodes[id].label}: ${amount(id)}, ${percent(shareOf(graph.value[id], graph.value[0]))} of all`;
  }
  function spentTexts(path) {
    $("spent-text").textContent = `Each row calls the one below it: process, its functions, the mechanism and what was done within it. Widths are ${SPENT[graph.weight][1]}; a click zooms.`;
    $("spent-unzoom").hidden = graph.zoom === 0;
    $("spent-path").textContent = `${pathWords(graph, path)}: ${amount(graph.zoom)}`;
  }
  return graph;
}

function drawSpent(graph) {
  if (!graph) return;
  graph.value = flameValues(spentTree, pageData.spent[SPENT[graph.weight][0]]);
  paintFlame(graph);
}
