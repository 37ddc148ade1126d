// Culprits' stacks: the process on top, its outermost function below, the cause at the bottom.

const FLAME_ROW = 19;
const WEIGHTS = { wait: WAIT, count: SHOOTDOWNS, stall: STALL };
const F = { weight: "wait", zoom: 0, focus: null, search: "", boxes: [], value: null, sums: null };

// The whole tree, once: a node's parent always comes before it.
const flameTree = (() => {
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

// The same order of children whatever time is chosen, so that the eye finds them again.
(() => {
  const whole = flameValues(sumSeries(T.sites, ALL)[SHOOTDOWNS]);
  for (const node of flameTree.nodes) node.children.sort((a, b) => whole[b] - whole[a] || a - b);
})();

function flameValues(bySite) {
  const { nodes, leaf } = flameTree;
  const value = new Float64Array(nodes.length);
  for (let i = 0; i < leaf.length; i += 1) value[leaf[i]] += bySite[i];
  for (let n = nodes.length - 1; n > 0; n -= 1) value[nodes[n].parent] += value[n];
  return value;
}

const flameAmount = (value) => (F.weight === "count" ? plural(value, "shootdown") : `${time(value)} of ${F.weight === "wait" ? "wait" : "victims’ stall"}`);

function flamePath(id) {
  const path = [];
  for (let n = id; n >= 0; n = flameTree.nodes[n].parent) path.unshift(n);
  return path;
}

function drawFlame(S) {
  F.value = flameValues(S.sites[WEIGHTS[F.weight]]);
  if (F.value[F.zoom] === 0) F.zoom = 0;
  F.sums = S;
  paintFlame();
}

function paintFlame() {
  const { nodes } = flameTree;
  const canvas = $("flame-plot");
  const width = canvas.parentElement.clientWidth;
  F.boxes = [];
  const path = flamePath(F.zoom);
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
  const { pen } = surface(canvas, rows * FLAME_ROW);
  pen.textBaseline = "middle";
  pen.textAlign = "left";
  const wanted = F.search.toLowerCase();
  for (const box of F.boxes) paintBox(pen, box, nodes[box.id], wanted);
  flameTexts(path, wanted);
}

function frameColour(node, wanted) {
  if (wanted && node.kind !== "root" && node.label.toLowerCase().includes(wanted)) return C.found;
  if (node.kind === "cause") return causeColour(node.cause);
  if (node.kind === "process" || node.kind === "root") return C.process;
  return node.depth % 2 ? C.frame : C["frame-2"];
}

function paintBox(pen, box, node, wanted) {
  const y = box.row * FLAME_ROW;
  const colour = frameColour(node, wanted);
  pen.fillStyle = colour;
  pen.fillRect(box.x, y, Math.max(0.6, box.w - (box.w > 3 ? 1 : 0)), FLAME_ROW - 1);
  if (box.id === F.focus) {
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

function flameTexts(path, wanted) {
  const { nodes } = flameTree;
  const all = F.value[0];
  $("flame-text").textContent = "Each row calls the one below it: process, its functions, the cause. " +
    `Widths are ${F.weight === "count" ? "numbers of shootdowns" : F.weight === "wait" ? "the culprits’ wait" : "the victims’ stall"}; a click zooms.`;
  $("unzoom").hidden = F.zoom === 0;
  const inner = path.slice(1).map((id) => nodes[id].label);
  const short = inner.length > 6 ? [...inner.slice(0, 2), "…", ...inner.slice(-3)] : inner;
  $("path").textContent = `${short.join(" › ") || "all"}: ${flameAmount(F.value[F.zoom])}${F.zoom && all > 0 ? `, ${percent(F.value[F.zoom] / all)} of all` : ""}`;
  $("found").textContent = wanted ? foundWords(wanted, all) : "";
}

// The outermost match of each stack, so that nothing counts twice.
function foundWords(wanted, all) {
  const { nodes } = flameTree;
  const within = new Uint8Array(nodes.length);
  let sum = 0;
  for (let n = 1; n < nodes.length; n += 1) {
    if (within[nodes[n].parent]) within[n] = 1;
    else if (nodes[n].label.toLowerCase().includes(wanted)) { within[n] = 1; sum += F.value[n]; }
  }
  return all > 0 ? `${percent(sum / all)} matches` : "";
}

const flameWords = (id) => `${flameTree.nodes[id].label}: ${flameAmount(F.value[id])}, ${percent(F.value[0] > 0 ? F.value[id] / F.value[0] : 0)} of all`;

function zoomFlame(id) {
  F.zoom = id;
  F.focus = F.focus === null ? null : id;
  paintFlame();
}

function flameEvents() {
  const canvas = $("flame-plot");
  const boxAt = (event) => {
    const [x, y] = at(canvas, event);
    return F.boxes.find((b) => b.row === Math.floor(y / FLAME_ROW) && x >= b.x && x < b.x + b.w);
  };
  canvas.addEventListener("pointermove", (event) => {
    const box = boxAt(event);
    if (box) tip(event, flameWords(box.id));
    else untip();
  });
  canvas.addEventListener("pointerleave", untip);
  canvas.addEventListener("click", (event) => {
    const box = boxAt(event);
    if (box) { untip(); zoomFlame(box.id); }
  });
  canvas.addEventListener("blur", () => { F.focus = null; $("flame-read").textContent = ""; paintFlame(); });
  canvas.addEventListener("keydown", (event) => {
    const to = flameKey(event.key);
    if (to === undefined) return;
    event.preventDefault();
    F.focus = to;
    $("flame-read").textContent = flameWords(to);
    paintFlame();
  });
  $("unzoom").addEventListener("click", () => { zoomFlame(0); canvas.focus(); });
  $("search").addEventListener("input", (event) => { F.search = event.target.value.trim(); paintFlame(); });
  $("search").addEventListener("keydown", (event) => {
    if (event.key === "Escape") { event.target.value = ""; F.search = ""; paintFlame(); }
  });
  for (const radio of document.querySelectorAll("input[name=weight]")) {
    radio.addEventListener("change", () => { F.weight = radio.value; drawFlame(F.sums); });
  }
}

// Where a key leads from the frame that has the focus.
function flameKey(key) {
  const { nodes } = flameTree;
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
