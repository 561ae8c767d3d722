// Look: the input on the left; on the right what one run or two make of it, as it is drawn.
import { h } from "./dom.js";
import { ask } from "./api.js";
import { openSelection } from "./selection.js";
import { runColumn } from "./run_column.js";
import { latestRequest } from "./latest_request.js";
import { openInputSource } from "./input_source.js";
import { openLatency } from "./latency.js";

export function liveTab({ banner, onChange }) {
  const asking = openSelection((isNew) => columns.forEach((one) => one.redraw(isNew)));
  const columns = [0, 1].map((i) => runColumn(asking, (how) => writeOn(i, how)));
  const grown = { prompt: "", text: "", tokens: 0 }; // a text that was written on, and how far
  const source = openInputSource({ onChange, onOther: () => asking.forget(), complain });
  const stopwatch = openLatency();
  const complaint = h("p", { class: "refusal", role: "alert", hidden: true });
  const left = h("div", { class: "left" });
  const element = h("div", { class: "look" }, left,
    h("div", { class: "right" }, asking.element, complaint, h("div", { class: "run-columns" }, columns.map((one) => one.element))));
  const ready = new Set(); // runs that were asked without a label: the first time takes longer
  let names = []; // of the runs that look

  function complain(error) {
    if (banner.takes(error)) return;
    complaint.hidden = false;
    complaint.textContent = error.message;
  }

  // One token more, as `glassformer generate` writes it: from the same prompt, with the same seed, one token longer.
  // Where the context is full, the last half of the text is the prompt that it goes on from.
  async function writeOn(i, how) {
    const text = source.now().input().text;
    const key = JSON.stringify([names[i], how]);
    const goes = grown.text === text && grown.key === key;
    const prompt = goes ? grown.prompt : text;
    try {
      const { text: written, tokens, last_half } = await ask("write", { run: names[i], prompt, length: goes ? grown.tokens + 1 : 1, ...how });
      if (source.now().input().text !== text) return;
      if (last_half != null) { // the context is full
        if (last_half.length >= text.length) throw new Error("This model's context has no room for another token.");
        source.now().show(last_half, null);
        return await writeOn(i, how);
      }
      Object.assign(grown, { prompt, key, text: prompt + written, tokens: Math.max(tokens, 1) });
      source.now().show(prompt + written, null);
    } catch (error) {
      complain(error);
    }
  }

  const preview = latestRequest(async ({ since }) => {
    const runs = names;
    const missing = source.now().missing();
    if (missing) {
      columns.forEach((one) => one.wait(missing));
      source.tell([]);
      return;
    }
    const input = source.now().input();
    const { views } = await ask("preview", { runs, input });
    if (runs !== names) return;
    complaint.hidden = true;
    banner.clear();
    if (!views[0].error) asking.offer(views[0]);
    views.forEach((view, i) => columns[i].show(view));
    source.tell(views.map((_, i) => columns[i].inBrief()));
    stopwatch.drawn(since);
    if (input.label != null && !ready.has(String(runs))) {
      ready.add(String(runs)); // drawings have no label: let the first stroke not wait for what can be made ready now
      await ask("preview", { runs, input: { ...input, label: null } });
    }
  }, complain);

  return {
    element, asking, columns, source, stopwatch,
    open: () => left.replaceChildren(source.room),
    // The runs that look; they are asked when `look` is called next.
    call(runs) {
      if (String(runs.map((run) => run.name)) !== String(names)) names = runs.map((run) => run.name);
      columns.forEach((one, i) => {
        one.element.hidden = i >= runs.length;
        if (runs[i]) one.call(runs[i]);
      });
      element.classList.toggle("both", runs.length > 1);
    },
    look: (since) => preview({ since: since == null ? [] : [since] }),
  };
}
