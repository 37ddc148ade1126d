// Everything together, and once more whenever the theme or the window changes.

const ALL = pageData.results.map(unpackExperiment);

// What does not change with the window.
function begin(experiment) {
  const box = $("experiment").content.firstElementChild.cloneNode(true);
  experiment.box = box;
  box.id = experiment.id;
  const { result } = experiment;
  box.querySelector(".name").textContent = result.experiment;
  box.querySelector(".what").textContent = `${result.about}${params(result) ? ` (${params(result)})` : ""}`;
  const m = result.machine;
  box.querySelector(".where").textContent = `Victim on CPU ${m.victim_cpu}${asleep(result) ? ", asleep" : ""}, culprit on CPU ${m.culprit_cpu}; ${machineWords(m)}`;
  box.querySelector(".answer").replaceChildren(...answer(result));
  for (const [part, label] of [[".arms", "arms"], [".percentiles .scroll", "percentiles"], [".budget .scroll", "gaps by class"], [".matrix .scroll", "who took the victim’s time"], [".flame .scroll", "both sides"], [".document .scroll", "beside the document"]]) {
    box.querySelector(part).setAttribute("role", "region");
    box.querySelector(part).setAttribute("aria-label", `${result.experiment}: ${label}`);
  }
  $("experiments").append(box);
  beginDocument(experiment);
  beginWays(experiment);
  if (asleep(result)) {
    for (const figure of box.querySelectorAll("figure:not(.flame)")) figure.remove();
    box.append(el("p", { class: "none-drawn" }, "The victim slept. It saw no gaps, so there is nothing to draw: what is told is how often an operation interrupted its CPU."));
  } else if (experiment.span > 0) walkGaps(experiment);
  else for (const part of [".gaps", ".heat", ".phase"]) notDrawn(experiment, box.querySelector(part), "timeline");
}

// What does: one experiment.
function draw(experiment) {
  experiment.box.querySelector(".arms").replaceChildren(armsTable(experiment.result));
  if (experiment.flame) paintFlame(experiment.flame);
  if (asleep(experiment.result)) return;
  percentilesText(experiment);
  drawPercentiles(experiment);
  budgetText(experiment);
  drawBudget(experiment);
  matrixText(experiment);
  drawMatrix(experiment);
  if (!(experiment.span > 0)) return;
  gapsText(experiment);
  experiment.box.querySelector(".gaps .legend").replaceChildren(...marksLegend(SEEN.map((arm) => experiment.lines[arm].gaps)));
  drawGaps(experiment);
  heatText(experiment);
  drawHeat(experiment);
  phaseText(experiment);
  drawPhase(experiment);
}

// One experiment a frame, however many there are, and from the first again when something has changed meanwhile.
let turn = 0;
function redraw() {
  turn += 1;
  const mine = turn;
  let next = 0;
  const step = () => {
    if (mine !== turn) return;
    if (next < ALL.length) {
      draw(ALL[next]);
      next += 1;
      requestAnimationFrame(step);
    } else {
      // for tests/page/use_lab_page.py
      document.documentElement.dataset.drawnMs = performance.now().toFixed(0);
    }
  };
  delete document.documentElement.dataset.drawnMs;
  requestAnimationFrame(step);
}

readColours();
const names = ALL.map((experiment) => experiment.result.experiment);
const question = asleep(ALL[0].result) ? `Does ${names[0]} reach a CPU that idles?` : `Does ${names[0]} stall other threads?`;
$("title").textContent = names.length === 1 ? question : `${plural(names.length, "experiment")} of the lab`;
const machines = [...new Set(ALL.map((experiment) => machineWords(experiment.result.machine)))];
$("about").textContent = `${machines.join("; ")}; quell ${pageData.version}`;
if (ALL.length > 1) {
  $("overview").replaceChildren(...overview(ALL));
  $("overview").hidden = false;
}
ALL.forEach(begin);
themes(redraw);
window.addEventListener("resize", redraw);
redraw();
