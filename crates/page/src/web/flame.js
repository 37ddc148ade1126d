// A flame graph: rows of boxes, each as wide as its value and the rows above it call those below; a click or a key zooms.
// What the boxes stand for, and what is said of them, its page knows.

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

// What each node has, of what its leaves have.
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

// `words` says what a box is, `painted` is told whenever all is drawn, `read` gets the words of the box with the focus.
function flameOf(canvas, read, { nodes }, words, painted) {
  return { canvas, read, nodes, words, painted, value: new Float64Array(nodes.length), zoom: 0, focus: null, search: "", boxes: [] };
}

function flamePath(F, id) {
  const path = [];
  for (let n = id; n >= 0; n = F.nodes[n].parent) path.unshift(n);
  return path;
}

function paintFlame(F) {
  const { nodes } = F;
  if (F.value[F.zoom] === 0) F.zoom = 0;
  const width = F.canvas.parentElement.clientWidth;
  F.boxes = [];
  const path = flamePath(F, F.zoom);
  path.forEach((id, row) => F.boxes.push({ id, x: 0, w: width, row }));
  const place = (id, x, w, row) => {
    let left = x;
    for (const c of nodes[id].children) {
      const wide = (F.value[c] / F.value[id]) * w;
      if (wide >= 1) {
        F.boxes.push({ id: c, x: left, w: wide, row });
        place(c, left, wide, row + 1);
      }
      left += wide;
    }
  };
  if (F.value[F.zoom] > 0) place(F.zoom, 0, width, path.length);
  const rows = F.boxes.reduce((most, b) => Math.max(most, b.row + 1), 1);
  const { pen } = surface(F.canvas, rows * FLAME_ROW);
  pen.textBaseline = "middle";
  pen.textAlign = "left";
  const wanted = F.search.toLowerCase();
  for (const box of F.boxes) paintBox(pen, box, nodes[box.id], wanted, box.id === F.focus);
  F.painted(path, wanted);
}

function frameColour(node, wanted) {
  if (wanted && node.kind !== "root" && node.label.toLowerCase().includes(wanted)) return C.found;
  if (node.kind === "cause") return causeColour(node.cause);
  if (node.kind === "process" || node.kind === "root") return C.process;
  return node.depth % 2 ? C.frame : C["frame-2"];
}

function paintBox(pen, box, node, wanted, focused) {
  const y = box.row * FLAME_ROW;
  const colour = frameColour(node, wanted);
  pen.fillStyle = colour;
  pen.fillRect(box.x, y, Math.max(0.6, box.w - (box.w > 3 ? 1 : 0)), FLAME_ROW - 1);
  if (focused) {
    pen.strokeStyle = C.accent;
    pen.lineWidth = 2;
    pen.strokeRect(box.x + 1, y + 1, Math.max(1, box.w - 3), FLAME_ROW - 3);
  }
  const room = Math.floor((box.w - 8) / 6.1);
  if (room < 3) return;
  pen.fillStyle = inkOn(colour);
  const text = node.label.length > room ? `${node.label.slice(0, room - 1)}…` : node.label;
  pen.fillText(text, box.x + 4, y + FLAME_ROW / 2);
}

function zoomFlame(F, id) {
  F.zoom = id;
  F.focus = F.focus === null ? null : id;
  paintFlame(F);
}

function flameEvents(F) {
  const { canvas } = F;
  const boxAt = (event) => {
    const [x, y] = at(canvas, event);
    return F.boxes.find((b) => b.row === Math.floor(y / FLAME_ROW) && x >= b.x && x < b.x + b.w);
  };
  canvas.addEventListener("pointermove", (event) => {
    const box = boxAt(event);
    if (box) tip(event, F.words(box.id));
    else untip();
  });
  canvas.addEventListener("pointerleave", untip);
  canvas.addEventListener("click", (event) => {
    const box = boxAt(event);
    if (box) { untip(); zoomFlame(F, box.id); }
  });
  canvas.addEventListener("blur", () => { F.focus = null; F.read.textContent = ""; paintFlame(F); });
  canvas.addEventListener("keydown", (event) => {
    const to = flameKey(F, event.key);
    if (to === undefined) return;
    event.preventDefault();
    F.focus = to;
    F.read.textContent = F.words(to);
    paintFlame(F);
  });
}

// Where a key leads from the frame that has the focus.
function flameKey(F, key) {
  const { nodes } = F;
  const now = F.focus === null ? F.zoom : F.focus;
  const drawn = (id) => F.boxes.some((b) => b.id === id);
  if (key === "Enter") { F.zoom = now; return now; }
  if (key === "Backspace") { F.zoom = Math.max(0, nodes[F.zoom].parent); return F.zoom; }
  if (key === "ArrowDown") return nodes[now].children.find(drawn) ?? now;
  if (key === "ArrowUp") return Math.max(0, nodes[now].parent);
  if (key === "ArrowLeft" || key === "ArrowRight") {
    const parent = nodes[now].parent;
    const beside = parent < 0 ? [now] : nodes[parent].children.filter(drawn);
    return beside[beside.indexOf(now) + (key === "ArrowLeft" ? -1 : 1)] ?? now;
  }
  return undefined;
}
