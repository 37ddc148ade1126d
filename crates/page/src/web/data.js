// The data of the page, unpacked. crates/page/src/data.rs and cells.rs write it.

const pageData = JSON.parse(document.getElementById("data").textContent);

// Amounts of `many` things over time: those of thing i are at start[i] up to start[i + 1].
function unpackSeries(base64, many, width) {
  const next = reader(base64);
  const start = new Uint32Array(many + 1);
  const step = [];
  const amounts = Array.from({ length: width }, () => []);
  for (let i = 0; i < many; i += 1) {
    let at = 0;
    for (let left = next(); left > 0; left -= 1) {
      at += next();
      step.push(at);
      for (let a = 0; a < width; a += 1) amounts[a].push(next());
    }
    start[i + 1] = step.length;
  }
  return { many, width, start, step: Uint32Array.from(step), amounts: amounts.map((a) => Float64Array.from(a)) };
}

// By step: for wait, delay and stall the maximum and the buckets in use with their counts.
function unpackSpread(base64) {
  const next = reader(base64);
  const steps = [];
  for (let left = next(); left > 0; left -= 1) {
    const step = next();
    const kinds = [];
    for (let kind = 0; kind < 3; kind += 1) {
      const max = next();
      const buckets = [];
      let bucket = 0;
      for (let used = next(); used > 0; used -= 1) {
        bucket += next();
        buckets.push([bucket, next()]);
      }
      kinds.push({ max, buckets });
    }
    steps.push({ step, kinds });
  }
  return steps;
}

// The lowest value of a bucket, ns: crates/event/src/histogram.rs has the same.
function lowest(bucket) {
  if (bucket < 64) return bucket;
  return ((bucket & 31) + 32) * 2 ** ((bucket >> 5) - 1);
}

const SHOOTDOWNS = 0;
const VICTIMS = 1;
const WAIT = 2;
const STALL = 3;

const unpacked = {
  causes: unpackSeries(pageData.causes.cells, pageData.causes.name.length, 4),
  sites: unpackSeries(pageData.sites.cells, pageData.sites.cause.length, 4),
  pairs: unpackSeries(pageData.pairs.cells, pageData.pairs.culprit.length, 2),
  matrix: unpackSeries(pageData.matrix.cells, pageData.matrix.from.length, 2),
  spread: unpackSpread(pageData.spread),
};
const STEP_NS = pageData.bin_ns * pageData.bins_a_step;
const BINS = pageData.steps * pageData.bins_a_step;
const ALL = { from: 0, to: pageData.steps };

const processName = (pid) => {
  if (pid < 0) return "other processes";
  if (pid === 0) return "idle CPUs";
  return `${pageData.processes[pid] || "?"} (${pid})`;
};
const regionName = (region) => (region < 0 ? "other regions" : pageData.regions[region]);
// ns after the recording began, at a step's beginning
const stepTime = (step) => pageData.origin_ns + step * STEP_NS;
