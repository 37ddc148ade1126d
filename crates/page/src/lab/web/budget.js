// The victim's time in gaps by class, a bar an arm.

const BUDGET = { left: 58, right: 92, row: 34, bar: 22, top: 6, bottom: 26 };
// The class in which another thread has the CPU is no part of the time for which the victim ran.
const PARTS = CLASSES.map((c, cls) => ({ ...c, cls })).filter((c) => c.name !== "sched");

function drawBudget(experiment) {
  const figure = experiment.box.querySelector(".budget");
  const box = figure.querySelector(".plot");
  const { result } = experiment;
  const arms = SEEN.filter((name) => result.arms[name]);
  const shares = arms.map((name) => PARTS.map((c) => classShare(result.arms[name], c.name)));
  const most = Math.max(1, ...shares.map(sum));
  const [width, height] = [box.clientWidth, BUDGET.top + arms.length * BUDGET.row + BUDGET.bottom];
  const x = (n) => BUDGET.left + (n / most) * (width - BUDGET.left - BUDGET.right);
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": "time in gaps by class, for each arm; the table below has the figures" });
  const step = roundStep(most, Math.max(2, Math.floor((width - BUDGET.left - BUDGET.right) / 110)));
  for (let v = 0; v <= most; v += step) {
    root.append(svg("line", { x1: x(v), x2: x(v), y1: BUDGET.top, y2: height - BUDGET.bottom, stroke: colours.rule }));
    root.append(svg("text", { x: x(v), y: height - BUDGET.bottom + 16, "text-anchor": "middle" }, v === 0 ? "0" : `${count(v)}`));
  }
  arms.forEach((name, i) => {
    const y = BUDGET.top + i * BUDGET.row + (BUDGET.row - BUDGET.bar) / 2;
    const middle = y + BUDGET.bar / 2 + 4;
    root.append(svg("text", { x: BUDGET.left - 8, y: middle, "text-anchor": "end", class: "label" }, name));
    let from = 0;
    PARTS.forEach((c, k) => {
      const share = shares[i][k];
      if (share <= 0) return;
      const [left, right] = [x(from), x(from + share)];
      const bar = svg("rect", { x: left, y, width: Math.max(0.5, right - left), height: BUDGET.bar, fill: classColour(c.cls), stroke: colours.paper, "stroke-width": right - left > 3 ? 1 : 0 });
      bar.addEventListener("pointermove", (event) => tip(event, `${name}: ${count(share)} ppm ${c.name}, ${c.is}`));
      bar.addEventListener("pointerleave", untip);
      root.append(bar);
      if (right - left > c.name.length * 7 + 8) {
        root.append(svg("text", { x: left + 5, y: middle, "pointer-events": "none" }, c.name));
        root.lastChild.style.fill = inkOn(classColour(c.cls));
      }
      from += share;
    });
    root.append(svg("text", { x: x(from) + 6, y: middle }, `${count(from)} ppm`));
  });
  box.replaceChildren(root);
  const used = PARTS.filter((c, k) => shares.some((s) => s[k] > 0));
  figure.querySelector(".legend").replaceChildren(...used.map((c) => el("span", { title: c.is }, swatch(classColour(c.cls)), c.name)));
  figure.querySelector(".scroll").replaceChildren(classesTable(result));
}

function budgetText(experiment) {
  experiment.box.querySelector(".budget figcaption span").textContent = "Time in gaps by class, in ppm of the time for which the victim had its CPU, over all valid blocks. What other threads took is apart, in the table, in ppm of all time. The untraced arm has no classes.";
}
