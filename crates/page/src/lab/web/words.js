// The answer in words, as the text report has it.

const WORD = { shown: "shown", "not-shown": "not shown", "too-noisy": "this machine is too noisy", "too-short": "the time was too short" };

const ppm = (n) => count(n).replace("-", "−");
const end = (n) => (n === null || n === undefined ? "?" : ppm(n));
const interval = (i) => (i.signs[1] === 0 ? "not known, for no round counts" : `${i.difference >= 0 ? "+" : ""}${ppm(i.difference)} ppm (${end(i.ci95[0])} to ${end(i.ci95[1])})`);
const perOp = (n) => (n >= 100 ? n.toFixed(0) : n >= 10 ? n.toFixed(1) : n.toFixed(3));
const known = (n) => n !== null && n !== undefined;

const params = (result) => Object.entries(result.params).map(([name, value]) => `${name}=${value}`).join(", ");

const machineWords = (m) => `Linux ${m.kernel}, ${m.cpu || "unknown CPU"}${m.virtual_machine ? ", in a virtual machine" : ""}, ${plural(m.cpus, "CPU")}`;

function answer(result) {
  const e = result.effect;
  const first = el("p", {}, el("b", { class: `verdict ${result.verdict}` }, WORD[result.verdict] || result.verdict), ` ${result.why}.`);
  const parts = [];
  const spun = !asleep(result);
  if (spun && e.stall_ppm.signs[1] > 0) {
    parts.push("The culprit’s operations changed the victim’s stall by ", el("b", {}, interval(e.stall_ppm)), ` of its time, upwards in ${e.stall_ppm.signs[0]} of ${e.stall_ppm.signs[1]} rounds. `);
  }
  if (known(result.shootdowns_per_op)) {
    parts.push(el("b", {}, `${perOp(result.shootdowns_per_op)} shootdowns`), ` reached the victim for each operation${known(result.expected_per_op) ? `, where the kernel’s code lets expect ${result.expected_per_op}` : ""}. `);
  }
  if (result.faults_per_op >= 0.0005) parts.push(`The victim took ${perOp(result.faults_per_op)} faults for each operation. `);
  if (spun && known(e.ns_per_event)) parts.push("Each cost it ", el("b", {}, time(Math.round(e.ns_per_event))), `, in the mean of ${count(e.events)}. `);
  if (spun && known(result.matched)) {
    const rest = result.matched < 1 ? "; the rest is unexplained" : "";
    parts.push(`Of the shootdowns that the probe saw at the victim, ${percent(result.matched)} lie in a gap that the victim saw itself${rest}.`);
  }
  const box = [first];
  if (parts.length) box.push(el("p", {}, ...parts));
  const control = WORD[result.sham_verdict] || result.sham_verdict;
  const others = spun ? ` All gaps, whatever their cause: ${interval(e.all_gaps_ppm)}. Without the probe, in short gaps: ${interval(e.untraced_ppm)}.` : "";
  box.push(el("p", { class: "control" }, `Control in another address space: ${control}: ${result.sham_why}.${others}`));
  if (result.interrupted) box.push(el("p", { class: "control warn" }, "It was interrupted: this is what was known by then."));
  return box;
}
