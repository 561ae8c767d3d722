// Another input: tokens hidden or replaced, patches hidden, the image drawn on.
import { h, visible } from "./dom.js";
import { bytesOf } from "./data.js";

const SIDE = 224; // of the picture, in pixels of the page

export function inputControls(trace, tools) {
  if (trace.input.kind === "image") return imageControls(trace, tools);
  return trace.input.kind === "text" ? tokenControls(trace, tools) : null;
}

// Tokens of one sequence, or of two: a click chooses one; it can be hidden from the others, or replaced.
function tokenControls(trace, { set, has }) {
  const sequences = ["tokens", ...(trace.sequences.memory.length ? ["memory"] : [])];
  let chosen = null;
  const chips = [];
  const id = `words-${Math.random().toString(36).slice(2)}`;
  const words = h("datalist", { id }, trace.words.slice(0, 2000).map((word) => h("option", { value: visible(word) })));
  const other = h("input", { list: id, "aria-label": "Another token", placeholder: "another token" });
  const problem = h("p", { class: "small refusal", hidden: true });
  const hide = h("button", { type: "button", class: "toggle", onclick: () => { const change = { change: "hide", ...chosen }; set(change, !has(change)); } }, "hide it from the others");
  const put = () => {
    const id_ = trace.words.findIndex((word) => word === other.value || visible(word) === other.value);
    problem.hidden = id_ >= 0;
    problem.textContent = `“${other.value}” is no token of this model; its tokens are in the list.`;
    if (id_ >= 0) set({ change: "token", ...chosen, id: id_ });
  };
  const form = h("div", { class: "value-form", hidden: true }, hide, trace.words.length ? [other, h("button", { type: "button", class: "plain-button", onclick: put }, "Replace")] : null);
  const choose = (place) => { chosen = place; form.hidden = false; other.value = ""; update(); };
  const rows = sequences.map((sequence) => h("div", { class: "token-chips", role: "group", "aria-label": sequence === "memory" ? "Source tokens" : "Tokens" },
    trace.sequences[sequence].map((token, position) => {
      const chip = h("button", { type: "button", class: "chip", onclick: () => choose({ position, sequence }) }, visible(token));
      chips.push([chip, { position, sequence }, token]);
      return chip;
    })));

  function update() {
    for (const [chip, place, token] of chips) {
      const edited = has({ change: "token", ...place });
      chip.textContent = visible(edited ? trace.words[edited.id] : token);
      chip.classList.toggle("edited", Boolean(edited));
      chip.classList.toggle("hidden-token", Boolean(has({ change: "hide", ...place })));
      chip.setAttribute("aria-pressed", String(chosen?.position === place.position && chosen?.sequence === place.sequence));
    }
    if (chosen) hide.setAttribute("aria-pressed", String(Boolean(has({ change: "hide", ...chosen }))));
  }
  return { element: h("div", { class: "what-if-group" }, h("h3", {}, "Tokens"), h("p", { class: "small" }, "Choose a token, then hide it or replace it."), words, rows, form, problem), update };
}

// The image, to be drawn on; or its patches, to be hidden from each other.
function imageControls(trace, { set, has, state }) {
  const [down, across, channels] = trace.input.shape;
  const original = bytesOf(trace.input.pixels);
  state.pixels ??= original.slice();
  const canvas = h("canvas", { width: across, height: down, class: "what-if-image", role: "img", "aria-label": "The image, to be drawn on" });
  const context = canvas.getContext("2d");
  let mode = "draw";
  const grid = trace.input.grid;
  const modes = [["draw", "draw"], ["erase", "erase"], ...(grid ? [["hide", "hide a patch"]] : [])];
  const buttons = modes.map(([value, words]) => h("button", { type: "button", class: "toggle", onclick: () => { mode = value; update(); } }, words));
  const whole = (make) => { state.pixels = make(); set({ change: "image", pixels: Array.from(state.pixels) }, !isOriginal()); };
  const isOriginal = () => state.pixels.every((x, i) => x === original[i]);

  function paint(x, y) {
    const level = mode === "draw" ? 255 : 0;
    for (let row = Math.max(0, y - 1); row <= Math.min(down - 1, y); row++) {
      for (let column = Math.max(0, x - 1); column <= Math.min(across - 1, x); column++) state.pixels.fill(level, (row * across + column) * channels, (row * across + column + 1) * channels);
    }
    draw();
  }
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [Math.floor(((event.clientX - box.left) / box.width) * across), Math.floor(((event.clientY - box.top) / box.height) * down)];
  };
  canvas.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    const [x, y] = place(event);
    if (mode !== "hide") { canvas.setPointerCapture(event.pointerId); state.drawing = true; return paint(x, y); }
    const [rows, columns] = grid;
    const position = (trace.input.first ?? 0) + Math.floor((y * rows) / down) * columns + Math.floor((x * columns) / across);
    const change = { change: "hide", position, sequence: "tokens" };
    set(change, !has(change));
  });
  canvas.addEventListener("pointermove", (event) => { if (state.drawing) paint(...place(event)); });
  const end = () => { if (state.drawing) { state.drawing = false; whole(() => state.pixels); } };
  canvas.addEventListener("pointerup", end);
  canvas.addEventListener("pointercancel", end);

  function draw() {
    const image = context.createImageData(across, down);
    for (let i = 0; i < down * across; i++) {
      for (let c = 0; c < 3; c++) image.data[4 * i + c] = state.pixels[i * channels + (channels === 3 ? c : 0)];
      image.data[4 * i + 3] = 255;
    }
    context.putImageData(image, 0, 0);
    if (!grid) return;
    const [rows, columns] = grid;
    context.fillStyle = "rgb(194 65 12 / 70%)";
    for (let i = 0; i < rows * columns; i++) {
      if (has({ change: "hide", position: (trace.input.first ?? 0) + i, sequence: "tokens" })) {
        context.fillRect(((i % columns) * across) / columns, (Math.floor(i / columns) * down) / rows, across / columns, down / rows);
      }
    }
  }
  function update() {
    if (!has({ change: "image" }) && !state.drawing) state.pixels = original.slice();
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(modes[i][0] === mode)));
    draw();
  }
  canvas.style.setProperty("width", `${SIDE}px`);
  return {
    element: h("div", { class: "what-if-group" }, h("h3", {}, "Image"), h("div", { class: "head-buttons" }, buttons,
      h("button", { type: "button", class: "plain-button", onclick: () => whole(() => original.map((x) => 255 - x)) }, "Invert"),
      h("button", { type: "button", class: "plain-button", onclick: () => whole(() => original.map(() => 0)) }, "Blank")), canvas),
    update,
  };
}
