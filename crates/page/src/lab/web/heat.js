// How many gaps of which length when: the real arm's timeline, counted.

const HEAT = { left: 58, right: 10, top: 6, bottom: 24, row: 9, cell: 7, per: 6 };

function heatCells(experiment, columns) {
  const { gaps } = experiment.lines.real;
  const [low, high] = gapsRange(experiment);
  const rows = Math.round(Math.log10(high / low)) * HEAT.per;
  const cells = new Float64Array(columns * rows);
  for (let i = 0; i < gaps.n; i += 1) {
    const column = Math.floor((gaps.begin[i] / experiment.span) * columns);
    const row = Math.min(rows - 1, Math.floor(Math.log10(Math.max(1, gaps.ns[i] / low)) * HEAT.per));
    if (column >= 0 && column < columns) cells[row * columns + column] += 1;
  }
  return { cells, rows, low };
}

function drawHeat(experiment) {
  const figure = experiment.box.querySelector(".heat");
  const canvas = figure.querySelector("canvas");
  if (!canvas) return;
  const wide = canvas.parentElement.clientWidth - HEAT.left - HEAT.right;
  const columns = Math.max(10, Math.floor(wide / HEAT.cell));
  const { cells, rows, low } = heatCells(experiment, columns);
  const { pen, width, height } = surface(canvas, HEAT.top + rows * HEAT.row + HEAT.bottom);
  const box = { left: HEAT.left, right: width - HEAT.right, top: HEAT.top, bottom: height - HEAT.bottom };
  leftAxis(pen, gapsRange(experiment), box);
  const most = cells.reduce((a, b) => Math.max(a, b), 1);
  const cell = (box.right - box.left) / columns;
  for (let row = 0; row < rows; row += 1) {
    for (let column = 0; column < columns; column += 1) {
      const n = cells[row * columns + column];
      if (n === 0) continue;
      // a square root, so that the few show beside the many
      pen.fillStyle = heat(0.12 + 0.88 * Math.sqrt(n / most));
      pen.fillRect(box.left + column * cell, box.bottom - (row + 1) * HEAT.row, Math.max(1, cell - 0.5), HEAT.row - 0.5);
    }
  }
  bottomAxis(pen, 0, experiment.span, box);
  const steps = [...new Set([1, Math.round(most / 4), most])].filter((n) => n > 0);
  figure.querySelector(".legend").replaceChildren(...steps.map((n) => el("span", {}, swatch(heat(0.12 + 0.88 * Math.sqrt(n / most))), count(n))), el("span", { class: "dim" }, "gaps"));
  canvas.setAttribute("aria-label", `Gaps of the real arm by time and length: ${count(sum(Array.from(cells)))} in ${time(experiment.span)}, at most ${count(most)} in one cell`);
  canvas.onpointermove = (event) => {
    const [px, py] = at(canvas, event);
    const [column, row] = [Math.floor((px - box.left) / cell), Math.floor((box.bottom - py) / HEAT.row)];
    if (column < 0 || column >= columns || row < 0 || row >= rows) { untip(); return; }
    const from = (experiment.span / columns) * column;
    const [short, long] = [row, row + 1].map((r) => low * 10 ** (r / HEAT.per));
    tip(event, `${plural(cells[row * columns + column], "gap")} of ${time(Math.round(short))} to ${time(Math.round(long))} at ${precise(from)} to ${precise(from + experiment.span / columns)}`);
  };
  canvas.onpointerleave = untip;
}

function heatText(experiment) {
  experiment.box.querySelector(".heat figcaption span").textContent = `The gaps of the real arm counted by time and length; the ${colours.dark ? "brighter" : "darker"}, the more.`;
}
