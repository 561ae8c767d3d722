// A picture on the page: drawn when it comes into sight, drawn again when its width changes; pointed at with mouse,
// finger or arrow keys; saved as SVG or PNG.
import { h } from "./dom.js";
import { INK } from "./colours.js";
import { onCanvas } from "./surface.js";
import { save } from "./save.js";

const live = new Set(); // figures on the page, for a change of theme
const inSight = new IntersectionObserver((entries) => entries.forEach(({ target, isIntersecting }) => {
  if (target.isConnected) target.figure.inSight(isIntersecting);
  else forget(target);
}), { rootMargin: "300px" });
const resized = new ResizeObserver((entries) => entries.forEach(({ target }) => target.figure?.resize()));

function forget(paper) {
  inSight.unobserve(paper);
  resized.unobserve(paper);
  live.delete(paper.figure);
}

export function theme() {
  const chosen = document.documentElement.dataset.theme;
  return chosen || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

export function redrawAll() {
  for (const figure of live) figure.element.isConnected ? figure.redraw() : live.delete(figure);
}

// onPoint(cell or null): hovered or moved to; onPick(cell): clicked or Enter; describe(cell): for screen readers.
export function figure(picture, { onPoint, onPick, describe, tools = true, plain = false } = {}) {
  const base = h("canvas", { class: "base", "aria-hidden": "true" });
  const top = h("canvas", { class: "cursor" });
  if (onPoint || onPick) Object.entries({ tabindex: 0, role: "application", "aria-label": `${picture.title}. Arrow keys move from cell to cell.` }).forEach(([key, value]) => top.setAttribute(key, value));
  else Object.entries({ role: "img", "aria-label": picture.title }).forEach(([key, value]) => top.setAttribute(key, value));
  const paper = h("div", { class: "paper" }, base, top);
  const element = h("div", { class: plain ? "figure plain" : "figure" }, paper);
  const buttons = tools ? saveButtons(picture, () => width) : null;
  if (tools === true) element.append(buttons);
  let width = 0;
  let seen = false;
  let stale = true;
  let cell = null;
  let marks = []; // cells, rows or columns that are framed while something else is pointed at

  const self = {
    element,
    picture,
    tools: buttons, // of a figure with `tools: "apart"`, to be put elsewhere
    inSight(is) {
      seen = is;
      if (seen && stale) draw();
    },
    resize() {
      const now = Math.floor(paper.clientWidth);
      if (now > 0 && now !== width) {
        width = now;
        paper.style.height = `${picture.height(width)}px`;
        self.redraw();
      }
    },
    redraw() {
      stale = true;
      if (seen && width) draw();
    },
    point(to, tell = true) {
      cell = to;
      drawCursor();
      if (tell && onPoint) onPoint(cell);
      if (describe && cell) top.setAttribute("aria-description", describe(cell));
    },
    mark(places) {
      if (!places.length && !marks.length) return;
      marks = places;
      drawCursor();
    },
    cell: () => cell,
    boxOf: (place) => (width ? picture.box?.(place, width) : null),
    marks: () => marks,
  };

  function prepared(canvas) {
    const height = picture.height(width);
    const sharpness = Math.min(window.devicePixelRatio || 1, 3);
    canvas.width = Math.round(width * sharpness);
    canvas.height = Math.round(height * sharpness);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    paper.style.height = `${height}px`;
    const context = canvas.getContext("2d");
    context.scale(sharpness, sharpness);
    return context;
  }

  function draw() {
    if (!width) return;
    stale = false;
    picture.draw(onCanvas(prepared(base)), width, theme());
    drawCursor();
  }

  function drawCursor() {
    if (!width || stale) return;
    const context = prepared(top);
    const ink = INK[theme()];
    for (const place of marks) frame(context, picture.box?.(place, width), ink.halo, ink.made);
    frame(context, cell && picture.box?.(cell, width), ink.halo, ink.mark);
  }

  function frame(context, box, halo, mark) {
    if (!box) return;
    const x = box.x - 1;
    const y = box.y - 1;
    const wide = Math.max(box.width, 3) + 2;
    const tall = Math.max(box.height, 3) + 2;
    for (const [colour, line] of [[halo, 4], [mark, 2]]) {
      context.strokeStyle = colour;
      context.lineWidth = line;
      context.strokeRect(x, y, wide, tall);
    }
  }

  const at = (event) => {
    const box = top.getBoundingClientRect();
    return picture.hit(event.clientX - box.left, event.clientY - box.top, width);
  };
  if (onPoint || onPick) {
    top.addEventListener("pointermove", (event) => {
      const to = at(event);
      if (JSON.stringify(to) !== JSON.stringify(cell)) self.point(to);
    });
    top.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") self.point(null); });
    top.addEventListener("click", (event) => {
      const to = at(event);
      if (to) { self.point(to); onPick?.(to); }
    });
    top.addEventListener("dblclick", (event) => {
      const to = at(event);
      if (to && picture.zoom) { picture.zoom(2, to); self.redraw(); }
    });
    top.addEventListener("blur", () => { if (cell) self.point(null); });
    top.addEventListener("keydown", (event) => {
      const step = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key];
      const far = event.shiftKey ? 8 : 1;
      if (step) self.point(cell ? picture.move(cell, far * step[0], far * step[1]) : picture.first());
      else if (event.key === "Enter" || event.key === " ") { if (cell) onPick?.(cell); }
      else if (picture.zoom && "+-=0".includes(event.key)) {
        picture.zoom({ "+": 2, "=": 2, "-": 0.5, 0: 1e-9 }[event.key], cell ?? picture.first());
        self.redraw();
      } else return;
      event.preventDefault();
      event.stopPropagation();
    });
  }

  paper.figure = self;
  live.add(self);
  inSight.observe(paper);
  resized.observe(paper);
  return self;
}

function saveButtons(picture, width) {
  return h("div", { class: "tools" }, ["svg", "png"].map((kind) =>
    h("button", { type: "button", class: "tool", title: `Save this picture as ${kind.toUpperCase()}`, "aria-label": `Save ${picture.title} as ${kind.toUpperCase()}`,
      onclick: () => save(picture, kind, width() || 480, theme()) }, kind.toUpperCase())));
}
