// The pad: an image drawn with mouse, finger or pen; every change can be undone.
import { choices, h } from "./dom.js";
import { canvasOf, drawStrokes, pixelsOf } from "./strokes.js";

const ERASER_OF_A_PEN = 32; // in PointerEvent.buttons

// onChange(since): `since` is the time of the pointer's event, null where no pointer moved.
export function openDrawingPad(shape, { onChange, onFile }) {
  const done = []; // { image, about } or { stroke } or { clear }, in the order they were done
  const context = h("canvas", { class: "pad", role: "img" }).getContext("2d");
  const canvas = context.canvas;
  const hint = h("p", { class: "pad-hint", "aria-hidden": "true" }, "draw here");
  const paper = h("div", { class: "pad-paper" }, canvas, hint);
  let erases = false;
  let stroke = null; // the one under way
  let centre = String(shape) === "28,28,1";

  // What the pad shows: the last image, if any, and the strokes since.
  function now() {
    const from = done.findLastIndex((one) => !one.stroke);
    const { image = null, about = null } = done[from] ?? {};
    const strokes = done.slice(from + 1).map((one) => one.stroke);
    return { image, about, strokes };
  }

  function draw() {
    const { image, strokes } = now();
    const width = Math.round(canvas.clientWidth * Math.min(window.devicePixelRatio || 1, 2)) || 280;
    const height = Math.round((width * shape[0]) / shape[1]);
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    context.fillStyle = "#000000";
    context.fillRect(0, 0, width, height);
    context.imageSmoothingEnabled = false;
    if (image) context.drawImage(canvasOf(image, shape), 0, 0, width, height);
    drawStrokes(context, strokes, width, height);
    hint.hidden = Boolean(image || strokes.length);
    canvas.setAttribute("aria-label", image ? `The pad: ${now().about.name}${strokes.length ? ", drawn over" : ""}` : strokes.length ? `The pad: a drawing of ${strokes.length} strokes` : "The pad: empty");
    undoButton.disabled = !done.length;
  }

  function change(one, since = null) {
    if (one) done.push(one);
    draw();
    onChange(since);
  }

  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (stroke || (event.pointerType === "mouse" && event.button !== 0)) return;
    event.preventDefault();
    canvas.setPointerCapture(event.pointerId);
    if (now().about?.greets && !erases) done.push({ clear: true }); // what only welcomes makes room for a drawing
    stroke = { points: [place(event)], erases: erases || Boolean(event.buttons & ERASER_OF_A_PEN), pointer: event.pointerId };
    change({ stroke }, event.timeStamp);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!stroke || event.pointerId !== stroke.pointer) return;
    const along = event.getCoalescedEvents?.() ?? [];
    stroke.points.push(...(along.length ? along : [event]).map(place));
    change(null, event.timeStamp);
  });
  for (const end of ["pointerup", "pointercancel", "lostpointercapture"]) canvas.addEventListener(end, () => { stroke = null; });

  const pens = choices("Tool", [["pen", "Pen", "draw"], ["eraser", "Eraser", "take away (e)"]], "pen", (tool) => {
    erases = tool === "eraser";
    pens.choose(tool);
    canvas.classList.toggle("erasing", erases);
  });
  const undoButton = h("button", { type: "button", class: "plain-button", title: "Undo (z)", onclick: () => self.undo() }, "Undo");
  const clearButton = h("button", { type: "button", class: "plain-button", title: "Clear (c)", onclick: () => self.clear() }, "Clear");
  const centred = h("input", { type: "checkbox", onchange: () => { centre = centred.checked; change(null); } });
  centred.checked = centre;
  const file = h("input", { type: "file", accept: "image/*", class: "hidden-file", "aria-label": "Choose an image file", onchange: () => {
    if (file.files[0]) onFile(file.files[0]);
    file.value = "";
  } });
  const element = h("div", { class: "source" }, paper,
    h("div", { class: "pad-tools" },
      h("div", { class: "tool-row" }, pens, undoButton, clearButton),
      h("label", { class: "switch", title: "A drawing is brought to the size and the middle that digits of MNIST have; models that were trained on them need it." }, centred, "centre what is drawn"),
      h("label", { class: "plain-button file-button" }, "Open an image …", file),
      h("p", { class: "small" }, "or drop one here, or paste it")));

  paper.addEventListener("dragover", (event) => { event.preventDefault(); paper.classList.add("dropping"); });
  paper.addEventListener("dragleave", () => paper.classList.remove("dropping"));
  paper.addEventListener("drop", (event) => {
    event.preventDefault();
    paper.classList.remove("dropping");
    if (event.dataTransfer.files[0]) onFile(event.dataTransfer.files[0]);
  });
  new ResizeObserver(draw).observe(canvas);

  const self = {
    element,
    // What the model is asked: pixels, and the label as long as nothing was changed.
    input() {
      const { image, about, strokes } = now();
      const pixels = pixelsOf({ image, strokes }, shape, centre);
      return { image: base64(pixels), label: strokes.length ? null : about?.label ?? null };
    },
    // An empty image has no answer, whatever a model would say of it.
    missing() {
      const { image, strokes } = now();
      return image || pixelsOf({ image, strokes }, shape, false).some(Boolean) ? "" : "Draw something.";
    },
    // The sample that is shown untouched, if it is one.
    sample: () => (now().strokes.length ? null : now().about?.sample ?? null),
    show(image, about) { change({ image, about }); },
    undo() { if (done.pop()) change(null); },
    clear() { if (done.length) change({ clear: true }); },
    erase() { pens.querySelector(`[data-value=${erases ? "pen" : "eraser"}]`).click(); },
    focus() {},
  };
  return self;
}

function base64(bytes) {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}
