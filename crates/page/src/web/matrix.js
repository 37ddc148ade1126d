// Culprit's CPU (rows) by victim's CPU (columns).

const matrixState = { side: 1, size: 0, left: 34, top: 30, hits: new Map(), stall: new Map(), cursor: null };

function drawMatrix(shownSums) {
  const state = matrixState;
  const highest = Math.max(0, ...pageData.matrix.from, ...pageData.matrix.at);
  state.side = Math.max(highest + 1, Math.min(64, Math.ceil(pageData.cpus / pageData.matrix.group)), 1);
  state.hits = new Map();
  state.stall = new Map();
  let most = 0;
  for (let i = 0; i < unpacked.matrix.many; i += 1) {
    const n = shownSums.matrix[0][i];
    if (n === 0) continue;
    const cell = pageData.matrix.from[i] * state.side + pageData.matrix.at[i];
    state.hits.set(cell, n);
    state.stall.set(cell, shownSums.matrix[1][i]);
    most = Math.max(most, n);
  }
  const room = Math.min($("matrix-plot").parentElement.clientWidth - state.left - 4, 420);
  state.size = Math.max(3, Math.min(56, room / state.side));
  const { pen } = surface($("matrix-plot"), state.top + state.side * state.size + 6);
  labels(pen, state);
  const gap = state.size > 6 ? 1 : 0;
  for (let from = 0; from < state.side; from += 1) {
    for (let to = 0; to < state.side; to += 1) {
      const n = state.hits.get(from * state.side + to) || 0;
      // a square root, so that the few show beside the many
      pen.fillStyle = n > 0 ? heat(0.08 + 0.92 * Math.sqrt(n / most)) : colours.raised;
      pen.fillRect(state.left + to * state.size, state.top + from * state.size, state.size - gap, state.size - gap);
    }
  }
  if (state.cursor) {
    pen.strokeStyle = colours.accent;
    pen.lineWidth = 2;
    pen.strokeRect(state.left + state.cursor[1] * state.size, state.top + state.cursor[0] * state.size, state.size - gap, state.size - gap);
  }
  const each = pageData.matrix.group > 1 ? `${pageData.matrix.group} CPUs each` : "one CPU each";
  $("matrix-text").textContent = `Rows are culprits’ CPUs, columns victims’, ${each}; the darker, the more interrupts.`.replace("darker", colours.dark ? "brighter" : "darker");
  const scale = [0.02, 0.25, 1].map((share) => el("span", {}, swatch(heat(0.08 + 0.92 * Math.sqrt(share))), count(most * share)));
  $("matrix-scale").replaceChildren(...(most > 0 ? scale : []), el("span", { class: "dim" }, "interrupts"));
}

function labels(pen, state) {
  const every = [1, 2, 4, 8, 16].find((n) => n * state.size >= 22) || 16;
  pen.fillStyle = colours.soft;
  pen.textBaseline = "middle";
  for (let i = 0; i < state.side; i += every) {
    const middle = i * state.size + state.size / 2;
    pen.textAlign = "right";
    pen.fillText(String(i * pageData.matrix.group), state.left - 6, state.top + middle);
    pen.textAlign = "center";
    pen.fillText(String(i * pageData.matrix.group), state.left + middle, state.top - 9);
  }
  pen.textAlign = "left";
  pen.fillText("victim’s CPU →", state.left, 7);
}

const cpuName = (row) => (pageData.matrix.group > 1 ? `CPUs ${row * pageData.matrix.group}–${(row + 1) * pageData.matrix.group - 1}` : `CPU ${row}`);

function matrixWords(from, to) {
  const state = matrixState;
  const cell = from * state.side + to;
  const n = state.hits.get(cell) || 0;
  return `${cpuName(from)} interrupted ${cpuName(to)} ${n === 1 ? "once" : `${count(n)} times`}: ${time(state.stall.get(cell) || 0)} of stall`;
}

function matrixEvents(redraw) {
  const canvas = $("matrix-plot");
  const state = matrixState;
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = at(canvas, event);
    const [from, to] = [Math.floor((y - state.top) / state.size), Math.floor((x - state.left) / state.size)];
    if (from < 0 || to < 0 || from >= state.side || to >= state.side) untip();
    else tip(event, matrixWords(from, to));
  });
  canvas.addEventListener("pointerleave", untip);
  canvas.addEventListener("blur", () => { state.cursor = null; $("matrix-read").textContent = ""; redraw(); });
  canvas.addEventListener("keydown", (event) => {
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!move) return;
    event.preventDefault();
    const now = state.cursor || [0, 0];
    state.cursor = state.cursor ? now.map((n, i) => Math.max(0, Math.min(state.side - 1, n + move[i]))) : now;
    $("matrix-read").textContent = matrixWords(...state.cursor);
    redraw();
  });
}
