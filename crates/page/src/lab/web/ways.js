// The kernel's functions on both sides of shootdowns, where a result has them: the culprit's as a flame graph whose
// widths are their cost for the victim, and the most frequent way side by side.

function waysTree(ways) {
  const { nodes, child } = flameNodes();
  const numbers = new Map();
  const number = (name) => {
    if (!numbers.has(name)) numbers.set(name, numbers.size);
    return numbers.get(name);
  };
  const down = (node, name) => child(node, number(name), () => ({ label: name, kind: "frame" }));
  return { nodes, leaf: ways.map((way) => [...way.culprit].reverse().reduce(down, 0)) };
}

function waysFlame(figure, ways) {
  const tree = waysTree(ways);
  const counts = flameValues(tree, ways.map((way) => way.shootdowns));
  const stalls = flameValues(tree, ways.map((way) => way.stall_ns));
  const words = (id) => {
    const share = graph.value[0] > 0 ? `, ${percent(graph.value[id] / graph.value[0])} of all` : "";
    return `${graph.nodes[id].label}: ${time(stalls[id])} of the victim’s in ${plural(counts[id], "shootdown")}${share}`;
  };
  const painted = () => { figure.querySelector(".path").textContent = words(graph.zoom); };
  const graph = flameOf(figure.querySelector("canvas"), figure.querySelector(".read"), tree, words, painted);
  // a clock that is too coarse for any of them still leaves their number
  graph.value = stalls[0] > 0 ? stalls : counts;
  sortFlame(tree, graph.value);
  flameEvents(graph);
  return graph;
}

function sidesTable({ culprit, victim }) {
  const rows = Array.from({ length: Math.max(culprit.length, victim.length) }, (_, i) => [culprit[i] || "", victim[i] || ""]);
  return tableOf("both sides", ["culprit", "victim"], rows, "name");
}

function waysText(figure, sides, ways) {
  const rare = sides.others > 0 ? ` ${plural(sides.others, "shootdown")} came by rarer ways, which are not drawn.` : "";
  figure.querySelector("figcaption span").textContent = ways.length === 0 ? "The kernel’s functions on both sides of shootdowns." : `The culprit’s functions in the kernel, from the system call to where it asks for the shootdown: each row calls the one below it. Widths are the victim’s time in the handler; a click zooms, and so do arrow keys, Enter and Backspace.${rare}`;
  const of = ways.length > 1 ? `, the most frequent of ${ways.length} ways` : "";
  figure.querySelector(".sides").textContent = `Both sides of ${plural(sides.shootdowns, "shootdown")}${of}, innermost function first.`;
}

// What does not change with the window. Only experiments that do one thing once keep stacks.
function beginWays(experiment) {
  const figure = experiment.box.querySelector(".flame");
  const sides = experiment.result.backtraces;
  if (!sides) { figure.remove(); return; }
  const ways = sides.ways || [];
  waysText(figure, sides, ways);
  figure.querySelector(".scroll").replaceChildren(sidesTable(sides));
  const canvas = figure.querySelector("canvas");
  if (ways.length > 0) {
    canvas.setAttribute("aria-label", "flame graph of the culprit’s functions; arrow keys move, Enter zooms, Backspace goes out");
    experiment.flame = waysFlame(figure, ways);
  } else {
    for (const part of figure.querySelectorAll(".plot, .path, .read")) part.remove();
  }
}
