// Time modulo 1, 4 and 10 ms: gaps at regular times stand in a column, and others are spread out.

const PERIODS = [1e6, 4e6, 10e6];
const PHASE_ARMS = ["idle", "real"];
const PHASE = { left: 58, right: 12, top: 22, panel: 120, between: 46, gutter: 16, bottom: 6 };

function phasePlace(width) {
  const columns = width > 700 ? PERIODS.length : 1;
  const wide = (width - PHASE.left - PHASE.right - (columns - 1) * PHASE.gutter) / columns;
  const panels = [];
  for (const arm of PHASE_ARMS) {
    for (const period of PERIODS) {
      const [row, column] = [Math.floor(panels.length / columns), panels.length % columns];
      const left = PHASE.left + column * (wide + PHASE.gutter);
      const top = PHASE.top + row * (PHASE.panel + PHASE.between);
      panels.push({ arm, period, left, right: left + wide, top, bottom: top + PHASE.panel, labels: column === 0 });
    }
  }
  const rows = Math.ceil(panels.length / columns);
  return { panels, height: PHASE.top + rows * (PHASE.panel + PHASE.between) - PHASE.between + 24 + PHASE.bottom };
}

function drawPhase(experiment) {
  const figure = experiment.box.querySelector(".phase");
  const canvas = figure.querySelector("canvas");
  if (!canvas) return;
  const place = phasePlace(canvas.parentElement.clientWidth);
  const { pen } = surface(canvas, place.height);
  const range = gapsRange(experiment);
  for (const panel of place.panels) {
    leftAxis(pen, range, panel);
    bottomAxis(pen, 0, panel.period, panel);
    pen.fillStyle = colours.ink;
    pen.textAlign = "left";
    pen.textBaseline = "alphabetic";
    pen.fillText(`${panel.arm}, modulo ${shortTime(panel.period)}`, panel.left, panel.top - 7);
    // Gaps behind the other pictures' end count here too: the longer the time, the plainer its regular gaps.
    const gaps = experiment.lines[panel.arm].kept;
    const y = logScale(range, panel.bottom, panel.top);
    pen.lineWidth = 1.1;
    pen.globalAlpha = gaps.n > 1500 ? 0.45 : 0.8;
    for (let i = 0; i < gaps.n; i += 1) {
      const x = panel.left + ((gaps.begin[i] % panel.period) / panel.period) * (panel.right - panel.left);
      pen.fillStyle = classColour(gaps.cls[i]);
      pen.strokeStyle = pen.fillStyle;
      mark(pen, x, y(gaps.ns[i]), gaps.cls[i], gaps.caused[i] === 1);
    }
    pen.globalAlpha = 1;
  }
  figure.querySelector(".legend").replaceChildren(...marksLegend(PHASE_ARMS.map((arm) => experiment.lines[arm].kept)));
}

function phaseText(experiment) {
  const figure = experiment.box.querySelector(".phase");
  figure.querySelector("figcaption span").textContent = "When in each millisecond, each four and each ten a gap began. What comes at regular times, such as a timer of the kernel’s or of the host’s, stands in a column; what does not is spread out.";
  // in the fullest tenth of each period, the share of all gaps: a tenth, if nothing is regular
  const told = PHASE_ARMS.flatMap((arm) => PERIODS.map((period) => `${arm}, modulo ${shortTime(period)}: ${percent(fullest(experiment.lines[arm].kept, period))}`));
  figure.querySelector("canvas").setAttribute("aria-label", `Share of gaps in the fullest tenth of each period; where nothing is regular it is about 10 %. ${told.join("; ")}`);
}

function fullest(gaps, period) {
  const tenths = new Float64Array(10);
  for (let i = 0; i < gaps.n; i += 1) tenths[Math.floor(((gaps.begin[i] % period) / period) * 10)] += 1;
  return gaps.n === 0 ? 0 : Math.max(...tenths) / gaps.n;
}
