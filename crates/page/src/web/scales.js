// Logarithmic scales, and curves by percentile on them.

// The decades that hold all values, from `low` up.
function decades(values) {
  let [low, high] = [Infinity, 0];
  for (const v of values) {
    if (v > 0 && v < low) low = v;
    if (v > high) high = v;
  }
  if (!(high > 0)) return [1, 10];
  low = 10 ** Math.floor(Math.log10(low) + 1e-9);
  high = 10 ** Math.ceil(Math.log10(high) - 1e-9);
  return [low, Math.max(high, low * 10)];
}

// A scale from values to places: `bottom` is where the lowest is.
const logScale = ([low, high], bottom, top) => (v) => bottom - (Math.log(Math.max(v, low) / low) / Math.log(high / low)) * (bottom - top);

function* powers([low, high]) {
  for (let v = low; v <= high * 1.01; v *= 10) yield v;
}

// Lines and texts of a plot by percentile: powers of ten to the right, of which every `every`th has its words, and upwards.
function percentileGrid(root, box, x, y, { deepest, every, words, range }) {
  for (let n = 0; n <= deepest; n += 1) {
    root.append(svg("line", { x1: x(n), x2: x(n), y1: box.top, y2: box.bottom, stroke: colours.rule }));
    if (n % every === 0) root.append(svg("text", { x: x(n), y: box.bottom + 16, "text-anchor": "middle" }, words(n)));
  }
  for (const v of powers(range)) {
    root.append(svg("line", { x1: box.left, x2: box.right, y1: y(v), y2: y(v), stroke: colours.rule }));
    root.append(svg("text", { x: box.left - 7, y: y(v) + 4, "text-anchor": "end" }, shortTime(v)));
  }
}

const pathOf = (points, x, y) => points.map(([n, v], i) => `${i ? "L" : "M"}${x(n).toFixed(1)} ${y(v).toFixed(1)}`).join("");

// Names at the ends of curves, [place, value, name, colour] each, apart from each other.
function endLabels(root, ends, x, y) {
  let above = -20;
  for (const [n, v, name, colour] of ends.sort((a, b) => b[1] - a[1])) {
    above = Math.max(y(v) + 4, above + 13);
    root.append(svg("text", { class: "label", x: x(n) + 5, y: above }, name));
    root.lastChild.style.fill = colour;
  }
}
