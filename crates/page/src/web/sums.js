// Sums over the chosen time: every other part of the page shows them.

// For each thing its amounts in steps from..to.
function sumSeries(series, range) {
  const { many, width, start, step, amounts } = series;
  const sums = Array.from({ length: width }, () => new Float64Array(many));
  for (let i = 0; i < many; i += 1) {
    for (let c = start[i]; c < start[i + 1]; c += 1) {
      if (step[c] < range.from || step[c] >= range.to) continue;
      for (let a = 0; a < width; a += 1) sums[a][i] += amounts[a][c];
    }
  }
  return sums;
}

function sumSpread(range) {
  const kinds = [0, 1, 2].map(() => ({ max: 0, total: 0, buckets: new Map() }));
  for (const { step, kinds: parts } of unpacked.spread) {
    if (step < range.from || step >= range.to) continue;
    parts.forEach((part, k) => {
      const kind = kinds[k];
      kind.max = Math.max(kind.max, part.max);
      for (const [bucket, n] of part.buckets) {
        kind.total += n;
        kind.buckets.set(bucket, (kind.buckets.get(bucket) || 0) + n);
      }
    });
  }
  for (const kind of kinds) kind.buckets = [...kind.buckets].sort((a, b) => a[0] - b[0]);
  return kinds;
}

// Amounts grouped by a key of each thing, most of the first amount first.
function group(sums, keys) {
  const rows = new Map();
  for (let i = 0; i < keys.length; i += 1) {
    if (sums[0][i] === 0 && sums[1][i] === 0) continue;
    let row = rows.get(keys[i]);
    if (!row) rows.set(keys[i], (row = { key: keys[i], n: sums.map(() => 0) }));
    sums.forEach((sum, a) => { row.n[a] += sum[i]; });
  }
  return [...rows.values()].sort((a, b) => b.n[0] - a.n[0] || b.n[1] - a.n[1]);
}

function sums(range) {
  const sites = sumSeries(unpacked.sites, range);
  const pairs = sumSeries(unpacked.pairs, range);
  const total = sites.map((sum) => sum.reduce((a, b) => a + b, 0));
  return {
    range,
    ns: range === ALL ? Math.max(pageData.duration_ns, pageData.to_ns - pageData.from_ns) : (range.to - range.from) * STEP_NS,
    total,
    sites,
    pairs,
    matrix: sumSeries(unpacked.matrix, range),
    spread: sumSpread(range),
    causes: group(sites, pageData.sites.cause),
    culprits: group(sites, pageData.sites.culprit),
    regions: group(sites, pageData.sites.region),
    victims: group(pairs, pageData.pairs.victim),
  };
}
