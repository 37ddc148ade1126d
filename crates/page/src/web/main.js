// Everything together, and once more whenever the time, the theme or the window changes.

let S = sums(ALL);
sums.whole = S;

function drawAll() {
  drawSelected();
  drawWords(S);
  drawTimeline(selection);
  drawMatrix(S);
  drawPercentiles(S);
  drawFlame(S);
  drawSpent(spentGraph);
  drawTables(S, redraw);
}

// At most once a frame, however fast the mouse.
let due = false;
function redraw() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
    S = selection ? sums(selection) : sums.whole;
    drawAll();
  });
}

$("title").textContent = D.title;
const began = D.start_wall_ms > 0 ? `, ${new Date(D.start_wall_ms).toISOString().slice(0, 16).replace("T", " ")} UTC` : "";
$("about").textContent = `${D.host}, Linux ${D.kernel}, ${plural(D.cpus, "CPU")}${began}, over ${time(D.duration_ns)}; seen by ${D.backend}, quell ${D.version}`;
readColours();
drawNotes();
drawAccount();
const spentGraph = spentFlame();
timelineText();
drawLegend();
drawAll();
brush(redraw);
matrixEvents(() => drawMatrix(S));
stackEvents();
themes(() => { drawLegend(); redraw(); });
window.addEventListener("resize", redraw);
// When the page could first be used, for bench/page.
document.documentElement.dataset.drawnMs = performance.now().toFixed(0);
