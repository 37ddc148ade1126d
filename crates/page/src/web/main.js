// Everything together, and once more whenever the time, the theme or the window changes.

let shownSums = sums(ALL);
sums.whole = shownSums;

function drawAll() {
  drawSelected();
  drawWords(shownSums);
  drawTimeline(selection);
  drawMatrix(shownSums);
  drawPercentiles(shownSums);
  drawFlame(shownSums);
  drawSpent(spentGraph);
  drawTables(shownSums, redraw);
}

// At most once a frame, however fast the mouse.
let due = false;
function redraw() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
    shownSums = selection ? sums(selection) : sums.whole;
    drawAll();
  });
}

$("title").textContent = pageData.title;
const began = pageData.start_wall_ms > 0 ? `, ${new Date(pageData.start_wall_ms).toISOString().slice(0, 16).replace("T", " ")} UTC` : "";
$("about").textContent = `${pageData.host}, Linux ${pageData.kernel}, ${plural(pageData.cpus, "CPU")}${began}, over ${time(pageData.duration_ns)}; seen by ${pageData.backend}, quell ${pageData.version}`;
readColours();
drawNotes();
drawAccount();
const spentGraph = spentFlame();
timelineText();
drawLegend();
drawAll();
brush(redraw);
matrixEvents(() => drawMatrix(shownSums));
stackEvents();
themes(() => { drawLegend(); redraw(); });
window.addEventListener("resize", redraw);
// When the page could first be used, for bench/page.
document.documentElement.dataset.drawnMs = performance.now().toFixed(0);
