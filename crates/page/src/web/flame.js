// A flame graph: rows of boxes, each as wide as its value and the rows above it call those below; a click or a key zooms.
// The page that draws it knows the meaning of the boxes and their words.

const FLAME_ROW = 19;

// A tree to be filled: a node's parent always comes before it. `child` finds a node by its parent and a number below
// 4194304, or makes it.
function flameNodes() {
  const nodes = [{ parent: -1, label: "all", kind: "root", depth: 0, children: [] }];
  const ids = new Map();
  const child = (parent, key, make) => {
    const full = parent * 4194304 + key;
    let id = ids.get(full);
    if (id === undefined) {
      id = nodes.length;
      ids.set(full, id);
      nodes.push({ parent, depth: nodes[parent].depth + 1, children: [], ...make() });
      nodes[parent].children.push(id);
    }
    return id;
  };
  return { nodes, child };
}

// The value of each node: the sum of its leaves' values.
function flameValues({ nodes, leaf }, amounts) {
  const value = new Float64Array(nodes.length);
  for (let i = 0; i < leaf.length; i += 1) value[leaf[i]] += amounts[i];
  for (let n = nodes.length - 1; n > 0; n -= 1) value[nodes[n].parent] += value[n];
  return value;
}

// The same order of children whatever is drawn of them, so that the eye finds them again.
function sortFlame({ nodes }, value) {
  for (const node of nodes) node.children.sort((a, b) => value[b] - value[a] || a - b);
}

// `words` describes a box, `painted` is called after each drawing, `read` gets the words of the box with the focus.
function flameOf(canvas, read, { nodes }, words, painted) {
  return { canvas, read, nodes, words, painted, value: new Float64Array(nodes.length), zoom: 0, focus: null, search: "", boxes: [] };
}

function flamePath(graph, id) {
  const path = [];
  for (let n = id; n >= 0; n = graph.nodes[n].parent) path.unshift(n);
  return path;
}

function paintFlame(graph) {
  const { nodes } = graph;
  if (graph.value[graph.zoom] === 0) graph.zoom = 0;
  const width = graph.canvas.parentElement.clientWidth;
  graph.boxes = [];
  const path = flamePath(graph, graph.zoom);
  path.forEach((id, row) => graph.boxes.push({ id, x: 0, w: width, row }));
  const place = (id, x, w, row) => {
    let left = x;
    for (const c of nodes[id].children) {
      const wide = (graph.value[c] / graph.value[id]) * w;
      if (wide >= 1) {
        graph.boxes.push({ id: c, x: left, w: wide, row });
        place(c, left, wide, row + 1);
      }
      left += wide;
    }
  };
  if (graph.value[graph.zoom] > 0) place(graph.zoom, 0, width, path.length);
  const rows = graph.boxes.reduce((most, b) => Math.max(most, b.row + 1), 1);
  const { pen } = surface(graph.canvas, rows * FLAME_ROW);
  pen.textBaseline = "middle";
  pen.textAlign = "left";
  const wanted = graph.search.toLowerCase();
  for (const box of graph.boxes) paintBox(pen, box, nodes[box.id], wanted, box.id === graph.focus);
  graph.painted(path, wanted);
}

function frameColour(node, wanted) {
  if (wanted && node.kind !== "root" && node.label.toLowerCase().includes(wanted)) return colours.found;
  if (node.kind === "cause") return causeColour(node.cause);
  if (node.kind === "process" || node.kind === "root") return colours.process;
  return node.depth % 2 ? colours.frame : colours["frame-2"];
}

function paintBox(pen, box, node, wanted, focused) {
  const y = box.row * FLAME_ROW;
  const colour = frameColour(node, wanted);
  pen.fillStyle = colour;
  pen.fillRect(box.x, y, Math.max(0.6, box.w - (box.w > 3 ? 1 : 0)), FLAME_ROW - 1);
  if (focused) {
    pen.strokeStyle = colours.accent;
    pen.lineWidth = 2;
    pen.strokeRect(box.x + 1, y + 1, Math.max(1, box.w - 3), FLAME_ROW - 3);
  }
  const room = Math.floor((box.w - 8) / 6.1);
  if (room < 3) return;
  pen.fillStyle = inkOn(colour);
  const text = node.label.length > room ? `${node.label.slice(0, room - 1)}…` : node.label;
  pen.fillText(text, box.x + 4, y + FLAME_ROW / 2);
}

function zoomFlame(graph, id) {
  graph.zoom = id;
  graph.focus = graph.focus === null ? null : id;
  paintFlame(graph);
}

function flameEvents(graph) {
  const { canvas } = graph;
  const boxAt = (event) => {
    const [x, y] = at(canvas, event);
    return graph.boxes.find((b) => b.row === Math.floor(y / FLAME_ROW) && x >= b.x && x < b.x + b.w);
  };
  canvas.addEventListener("pointermove", (event) => {
    const box = boxAt(event);
    if (box) tip(event, graph.words(box.id));
    else untip();
  });
  canvas.addEventListener("pointerleave", untip);
  canvas.addEventListener("click", (event) => {
    const box = boxAt(event);
    if (box) { untip(); zoomFlame(graph, box.id); }
  });
  canvas.addEventListener("blur", () => { graph.focus = null; graph.read.textContent = ""; paintFlame(graph); });
  canvas.addEventListener("keydown", (event) => {
    const to = flameKey(graph, event.key);
    if (to === undefined) return;
    event.preventDefault();
    graph.focus = to;
    graph.read.textContent = graph.words(to);
    paintFlame(graph);
  });
}

// Where a key leads from the frame that has the focus.
function flameKey(graph, key) {
  const { nodes } = graph;
  const now = graph.focus === null ? graph.zoom : graph.focus;
  const drawn = (id) => graph.boxes.some((b) => b.id === id);
  if (key === "Enter") { graph.zoom = now; return now; }
  if (key === "Backspace") { graph.zoom = Math.max(0, nodes[graph.zoom].parent); return graph.zoom; }
  if (key === "ArrowDown") return nodes[now].children.find(drawn) ?? now;
  if (key === "ArrowUp") return Math.max(0, nodes[now].parent);
  if (key === "ArrowLeft" || key === "ArrowRight") {
    const parent = nodes[now].parent;
    const beside = parent < 0 ? [now] : nodes[parent].children.filter(drawn);
    return beside[beside.indexOf(now) + (key === "ArrowLeft" ? -1 : 1)] ?? now;
  }
  return undefined;
}
