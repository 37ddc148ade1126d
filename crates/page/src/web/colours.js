// Colours from the style sheet, which knows light and dark.

const CAUSE_COLOURS = 7;
const COLOUR_NAMES = ["paper", "raised", "ink", "soft", "rule", "accent", "frame", "frame-2", "process", "found", "veil", "heat-low", "heat-high", "c-other"];
let colours = {};

function readColours() {
  const probe = document.createElement("span");
  document.body.append(probe);
  const read = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  colours = Object.fromEntries(COLOUR_NAMES.map((name) => [name, read(name)]));
  colours.causes = Array.from({ length: CAUSE_COLOURS }, (_, i) => read(`c${i}`));
  probe.remove();
  const parts = (colour) => colour.match(/[\d.]+/g).slice(0, 3).map(Number);
  colours.low = parts(colours["heat-low"]);
  colours.high = parts(colours["heat-high"]);
  colours.dark = parts(colours.paper)[0] < 128;
}

// Causes come with most stall first; those after the seventh share grey.
const causeColour = (cause) => (cause < CAUSE_COLOURS ? colours.causes[cause] : colours["c-other"]);

const heat = (share) => `rgb(${colours.low.map((low, i) => Math.round(low + (colours.high[i] - low) * share)).join(" ")})`;

// Black or white, whichever has more contrast to a colour: both have as much where its luminance is 0.21 (WCAG 2).
function inkOn(colour) {
  const [r, g, b] = colour.match(/[\d.]+/g).map((part) => (Number(part) / 255) ** 2.2);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.21 ? "#1d1f21" : "#ffffff";
}

const THEMES = ["auto", "light", "dark"];

function themes(redraw) {
  const button = $("theme");
  button.addEventListener("click", () => {
    const now = document.documentElement.dataset.theme || "auto";
    const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
    document.documentElement.dataset.theme = next;
    button.textContent = `theme: ${next}`;
    readColours();
    redraw();
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); redraw(); });
}
