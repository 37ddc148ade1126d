// Numbers for people, as the text report writes them.

// Zero is added so that a number that rounds to it from below gets no sign.
const count = (n) => (Math.round(n) + 0).toLocaleString("en-US");

function scaled(value, units, step) {
  let unit = 0;
  while (value >= 999.5 && unit + 1 < units.length) { value /= step; unit += 1; }
  const digits = unit === 0 && Number.isInteger(value) ? 0 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return `${value.toFixed(digits)} ${units[unit]}`;
}

const time = (ns) => (ns < 0 ? `−${time(-ns)}` : scaled(ns, ["ns", "µs", "ms", "s"], 1000));

// A time on an axis: no more digits than it needs.
function shortTime(ns) {
  if (ns === 0) return "0";
  const [unit, size] = ns >= 1e9 ? ["s", 1e9] : ns >= 1e6 ? ["ms", 1e6] : ns >= 1e3 ? ["µs", 1e3] : ["ns", 1];
  return `${Number((ns / size).toPrecision(4))} ${unit}`;
}

function percent(share) {
  const p = share * 100;
  if (p === 0) return "0 %";
  if (p < 0.05) return "<0.1 %";
  if (p >= 99.5 && p < 100) return `${Math.floor(p * 10) / 10} %`;
  return p < 9.95 ? `${p.toFixed(1)} %` : `${p.toFixed(0)} %`;
}

const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;

// Round steps for an axis from 0 to `most`, about `ticks` of them.
function roundStep(most, ticks) {
  const raw = most / Math.max(1, ticks);
  if (!(raw > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
}
