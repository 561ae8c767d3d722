// Where the input comes from: the pad or the field for texts, the test data, a picture file.
import { h } from "./dom.js";
import { Gone, ask } from "./api.js";
import { reads } from "./run_select.js";
import { bytesOf } from "./data.js";
import { openDrawingPad } from "./drawing_pad.js";
import { sampleBar } from "./samples.js";
import { openTextInput } from "./text_input.js";

const LARGEST = 5 << 20; // bytes of a picture

// onChange(since): when the pointer moved, or null; onOther(): what is pointed at is gone; complain(error).
export function openInputSource({ onChange, onOther, complain }) {
  const room = h("section", { class: "pad-room", "aria-label": "Input" });
  const brief = h("div", { class: "brief", "aria-hidden": "true" }); // on a phone, where the answer lies below the pad
  const bar = sampleBar(showSample);
  let now = null; // the pad, or the field
  let reader = null; // the run it was made for

  function changed(since = null) {
    if (now.sample() == null) bar.tell(-1);
    onChange(since);
  }

  async function showSample(index, greets = false) {
    const run = reader.name;
    try {
      const { count, image, label, text, target, name } = await ask(`sample?${new URLSearchParams({ run, index })}`);
      if (run !== reader.name) return;
      bar.tell(index, count);
      if (image != null) now.show(bytesOf(image), { name, label, sample: index, greets });
      else now.show(text, { target, sample: index });
    } catch (error) {
      if (greets && !(error instanceof Gone)) changed(); // a run whose data is not here still looks at what is drawn
      else complain(error);
    }
  }

  // A picture is prepared by the server, as `glassformer predict` does it, and lies on the pad from then on.
  async function showFile(file) {
    try {
      if (file.size > LARGEST) throw new Error(`${file.name} has ${(file.size / 1e6).toFixed(1)} MB; at most ${(LARGEST / 1e6).toFixed(1)} can be read`);
      const { views } = await ask("preview", { runs: [reader.name], input: { picture: await base64Of(file) } });
      if (views[0].error) throw new Error(views[0].error);
      now.show(bytesOf(views[0].input.pixels), { name: file.name });
    } catch (error) {
      complain(error);
    }
  }

  function make(run) {
    now = run.kind === "image" ? openDrawingPad(run.shape, { onChange: changed, onFile: showFile }) : openTextInput(run.kind, { onChange: changed });
    room.dataset.kind = run.kind;
    now.element.firstChild.after(brief);
    room.replaceChildren(now.element, bar.element);
    bar.tell(-1, 0);
  }

  window.addEventListener("paste", (event) => {
    const file = [...(event.clipboardData?.files ?? [])].find((one) => one.type.startsWith("image/"));
    if (file && reader?.kind === "image") showFile(file);
  });
  for (const kind of ["dragover", "drop"]) window.addEventListener(kind, (event) => event.preventDefault()); // a file beside the pad opens nothing

  return {
    room, bar,
    now: () => now,
    // For this run. What was drawn or written stays there if it reads the same; a sample of other data does not: then the
    // first of its own is on its way, and true comes back.
    open(run) {
      const before = reader;
      reader = run;
      const isSame = before && reads(before) === reads(run);
      if (isSame && (now.sample() == null || run.data === before.data)) return false;
      onOther();
      if (!isSame) make(run);
      showSample(0, true);
      return true;
    },
    // What the server is asked about; a sample that nothing was done to has a name.
    named: () => (now.sample() == null ? now.input() : { sample: now.sample() }),
    tell: (answers) => brief.replaceChildren(...answers.map((answer) => h("p", {}, answer))),
  };
}

function base64Of(file) {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => failed(new Error(`${file.name} cannot be read`));
    reader.readAsDataURL(file);
  });
}
