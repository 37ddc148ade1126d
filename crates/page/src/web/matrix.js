// Culprit's CPU (rows) by victim's CPU (columns).

const matrixState = { side: 1, size: 0, left: 34, top: 30, hits: new Map(), stall: new Map(), cursor: null };

function drawMatrix(S) {
  const M = matrixState;
  const highest = Math.max(0, ...D.matrix.from, ...D.matrix.at);
  M.side = Math.max(highest + 1, Math.min(64, Math.ceil(D.cpus / D.matrix.group)), 1);
  M.hits = new Map();
  M.stall = new Map();
  let most = 0;
  for (let i = 0; i < T.matrix.many; i += 1) {
    const n = S.matrix[0][i];
    if (n === 0) continue;
    const cell = D.matrix.from[i] * M.side + D.matrix.at[i];
    M.hits.set(cell, n);
    M.stall.set(cell, S.matrix[1][i]);
    most = Math.max(most, n);
  }
  const room = Math.min($("matrix-plot").parentElement.clientWidth - M.left - 4, 420);
  M.size = Math.max(3, Math.min(56, room / M.side));
  const { pen } = surface($("matrix-plot"), M.top + M.side * M.size + 6);
  labels(pen, M);
  const gap = M.size > 6 ? 1 : 0;
  for (let from = 0; from < M.side; from += 1) {
    for (let to = 0; to < M.side; to += 1) {
      const n = M.hits.get(from * M.side + to) || 0;
      // a square root, so that the few show beside the many
      pen.fillStyle = n > 0 ? heat(0.08 + 0.92 * Math.sqrt(n / most)) : C.raised;
      pen.fillRect(M.left + to * M.size, M.top + from * M.size, M.size - gap, M.size - gap);
    }
  }
  if (M.cursor) {
    pen.strokeStyle = C.accent;
    pen.lineWidth = 2;
    pen.strokeRect(M.left + M.cursor[1] * M.size, M.top + M.cursor[0] * M.size, M.size - gap, M.size - gap);
  }
  const each = D.matrix.group > 1 ? `${D.matrix.group} CPUs each` : "one CPU each";
  $("matrix-text").textContent = `Rows are culprits’ CPUs, columns victims’, ${each}; the darker, the more interrupts.`.replace("darker", C.dark ? "brighter" : "darker");
  const scale = [0.02, 0.25, 1].map((share) => el("span", {}, swatch(heat(0.08 + 0.92 * Math.sqrt(share))), count(most * share)));
  $("matrix-scale").replaceChildren(...(most > 0 ? scale : []), el("span", { class: "dim" }, "interrupts"));
}

function labels(pen, M) {
  const every = [1, 2, 4, 8, 16].find((n) => n * M.size >= 22) || 16;
  pen.fillStyle = C.soft;
  pen.textBaseline = "middle";
  for (let i = 0; i < M.side; i += every) {
    const middle = i * M.size + M.size / 2;
    pen.textAlign = "right";
    pen.fillText(String(i * D.matrix.group), M.left - 6, M.top + middle);
    pen.textAlign = "center";
    pen.fillText(String(i * D.matrix.group), M.left + middle, M.top - 9);
  }
  pen.textAlign = "left";
  pen.fillText("victim’s CPU →", M.left, 7);
}

const cpuName = (row) => (D.matrix.group > 1 ? `CPUs ${row * D.matrix.group}–${(row + 1) * D.matrix.group - 1}` : `CPU ${row}`);

function matrixWords(from, to) {
  const M = matrixState;
  const cell = from * M.side + to;
  const n = M.hits.get(cell) || 0;
  return `${cpuName(from)} interrupted ${cpuName(to)} ${n === 1 ? "once" : `${count(n)} times`}: ${time(M.stall.get(cell) || 0)} of stall`;
}

function matrixEvents(redraw) {
  const canvas = $("matrix-plot");
  const M = matrixState;
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = at(canvas, event);
    const [from, to] = [Math.floor((y - M.top) / M.size), Math.floor((x - M.left) / M.size)];
    if (from < 0 || to < 0 || from >= M.side || to >= M.side) untip();
    else tip(event, matrixWords(from, to));
  });
  canvas.addEventListener("pointerleave", untip);
  canvas.addEventListener("blur", () => { M.cursor = null; $("matrix-read").textContent = ""; redraw(); });
  canvas.addEventListener("keydown", (event) => {
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!move) return;
    event.preventDefault();
    const now = M.cursor || [0, 0];
    M.cursor = M.cursor ? now.map((n, i) => Math.max(0, Math.min(M.side - 1, n + move[i]))) : now;
    $("matrix-read").textContent = matrixWords(...M.cursor);
    redraw();
  });
}
