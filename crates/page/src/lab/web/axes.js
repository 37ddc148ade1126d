// The axes of canvases.

// Lines and texts of a logarithmic axis at the left of a box.
function leftAxis(pen, range, box) {
  const y = logScale(range, box.bottom, box.top);
  const every = (box.bottom - box.top) / Math.log10(range[1] / range[0]) < 15 ? 2 : 1;
  let n = 0;
  for (const v of powers(range)) {
    pen.strokeStyle = colours.rule;
    pen.lineWidth = 1;
    pen.beginPath();
    pen.moveTo(box.left, Math.round(y(v)) + 0.5);
    pen.lineTo(box.right, Math.round(y(v)) + 0.5);
    pen.stroke();
    if (n % every === 0 && box.labels !== false) {
      pen.fillStyle = colours.soft;
      pen.textAlign = "right";
      pen.textBaseline = "middle";
      pen.fillText(shortTime(v), box.left - 7, y(v));
    }
    n += 1;
  }
}

// Ticks and texts of time below a box that shows `from` to `to`.
function bottomAxis(pen, from, to, box) {
  const step = roundStep(to - from, Math.max(2, Math.floor((box.right - box.left) / 90)));
  pen.strokeStyle = colours.rule;
  pen.fillStyle = colours.soft;
  pen.lineWidth = 1;
  pen.textAlign = "center";
  pen.textBaseline = "top";
  for (let k = Math.ceil(from / step - 1e-9); k * step <= to + step * 1e-6; k += 1) {
    const x = Math.round(box.left + ((k * step - from) / (to - from)) * (box.right - box.left)) + 0.5;
    pen.beginPath();
    pen.moveTo(x, box.bottom);
    pen.lineTo(x, box.bottom + 4);
    pen.stroke();
    if (x < box.right - 10 || k === 0) pen.fillText(shortTime(Math.round(k * step)), x, box.bottom + 6);
  }
}

// The words that stand in place of a figure: it names the data that are missing (`what`), and why.
function notDrawn(experiment, figure, what) {
  const counted = Object.values(experiment.result.arms).some((arm) => arm.blocks > 0);
  const why = counted ? "it was printed with --json, and not written with -o" : "no block of it counts";
  figure.querySelector(".plot").replaceChildren(el("p", { class: "none-drawn" }, `This result holds no ${what}: ${why}.`));
  for (const rest of figure.querySelectorAll(".legend, .read, .help")) rest.remove();
}
