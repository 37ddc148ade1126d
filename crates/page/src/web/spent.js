// The time of memory management as a flame graph: the process on top, its outermost function below, the mechanism and its
// part at the bottom. It is of the whole trace, as the account is.

const spentTree = D.spent && (() => {
  const A = D.spent;
  const { nodes, child } = flameNodes();
  const leaf = new Uint32Array(A.pid.length);
  const pids = new Map();
  for (let i = 0; i < A.pid.length; i += 1) {
    const pid = A.pid[i];
    if (!pids.has(pid)) pids.set(pid, pids.size);
    const process = child(0, pids.get(pid), () => ({ label: `${A.processes[pid] || "?"} (${pid})`, kind: "process" }));
    const mechanism = A.mechanism[i];
    const node = child(stackNode(child, process, A.stack[i]), mechanism, () => ({ label: A.mechanisms[mechanism], kind: "cause", cause: mechanism }));
    const part = A.part[i];
    leaf[i] = part < 0 ? node : child(node, 128 + part, () => ({ label: A.parts[part], kind: "cause", cause: mechanism }));
  }
  return { nodes, leaf };
})();

const SPENT = { cpu: ["cpu_ns", "CPU time"], blocked: ["blocked_ns", "time asleep"] };

function spentFlame() {
  if (!spentTree) { $("spent").hidden = true; return null; }
  const A = D.spent;
  sortFlame(spentTree, flameValues(spentTree, A.cpu_ns.map((ns, i) => ns + A.blocked_ns[i])));
  const G = flameOf($("spent-plot"), $("spent-read"), spentTree, spentWords, spentTexts);
  const sum = (of) => of.reduce((a, b) => a + b, 0);
  // what a reader came for: most programs sleep for nothing here
  G.weight = sum(A.blocked_ns) > sum(A.cpu_ns) ? "blocked" : "cpu";
  for (const radio of document.querySelectorAll("input[name=spent-weight]")) {
    radio.checked = radio.value === G.weight;
    radio.addEventListener("change", () => { G.weight = radio.value; drawSpent(G); });
  }
  flameEvents(G);
  $("spent-unzoom").addEventListener("click", () => { zoomFlame(G, 0); G.canvas.focus(); });

  function amount(id) {
    return `${time(G.value[id])} of ${SPENT[G.weight][1]}`;
  }
  function spentWords(id) {
    return `${G.nodes[id].label}: ${amount(id)}, ${percent(shareOf(G.value[id], G.value[0]))} of all`;
  }
  function spentTexts(path) {
    $("spent-text").textContent = `Each row calls the one below it: process, its functions, the mechanism and what was done within it. Widths are ${SPENT[G.weight][1]}; a click zooms.`;
    $("spent-unzoom").hidden = G.zoom === 0;
    $("spent-path").textContent = `${pathWords(G, path)}: ${amount(G.zoom)}`;
  }
  return G;
}

function drawSpent(G) {
  if (!G) return;
  G.value = flameValues(spentTree, D.spent[SPENT[G.weight][0]]);
  paintFlame(G);
}
