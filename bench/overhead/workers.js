// Two workers that make garbage, and wait for nobody.
const { Worker, isMainThread } = require("worker_threads");

if (isMainThread) {
  for (let n = 0; n < 2; n += 1) new Worker(__filename);
} else {
  let sum = 0;
  for (let round = 0; round < 60; round += 1) {
    const kept = [];
    for (let i = 0; i < 200_000; i += 1) kept.push({ i, list: [i] });
    sum += kept.length + Buffer.alloc(8 << 20, 1)[3];
  }
  if (sum === 0) process.exitCode = 1;
}
