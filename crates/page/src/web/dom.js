// Elements, canvases and the tip. Text goes in as text, never as HTML: names are anybody's.

const $ = (id) => document.getElementById(id);

function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key === "class") node.className = value;
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

const svg = (tag, attributes, text) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text) node.textContent = text;
  return node;
};

const swatch = (colour) => {
  const node = el("span", { class: "swatch" });
  node.style.background = colour;
  return node;
};

// A canvas as wide as its column and as sharp as the screen.
function surface(canvas, height) {
  const width = canvas.parentElement.clientWidth;
  const ratio = window.devicePixelRatio || 1;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = "11px system-ui, sans-serif";
  return { pen, width, height };
}

const at = (canvas, event) => {
  const box = canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
};

function tip(event, ...lines) {
  const box = $("tip");
  box.replaceChildren(...lines.map((line) => (line instanceof Node ? line : el("div", {}, line))));
  box.hidden = false;
  const size = box.getBoundingClientRect();
  const left = event.clientX + 14 + size.width > window.innerWidth ? event.clientX - size.width - 14 : event.clientX + 14;
  const top = event.clientY + 14 + size.height > window.innerHeight ? event.clientY - size.height - 14 : event.clientY + 14;
  box.style.left = `${Math.max(4, left)}px`;
  box.style.top = `${Math.max(4, top)}px`;
}

const untip = () => { $("tip").hidden = true; };
