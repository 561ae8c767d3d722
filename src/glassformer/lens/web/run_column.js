// What one run makes of the input: its answer, the attention weights of the patch or token that is pointed at, and all heads.
import { h, number, percent, visible } from "./dom.js";
import { answerFacts, rightClass, showPlace } from "./answer.js";
import { called, sharesOf, words } from "./attention.js";
import { barsPicture } from "./bars.js";
import { livePicture } from "./live_picture.js";
import { openTrace } from "./data.js";
import { figure } from "./figure.js";
import { headsView } from "./heads.js";
import { imagePicture } from "./image.js";
import { nextSymbolView } from "./next_symbol.js";
import { tokensPicture } from "./tokens.js";

const LARGEST = 460; // pixels, along a side of the image
const LOOKING = "Looking … the first time takes a few seconds.";
const MOST = 5; // of the tokens that are looked at, those that are named

// `write(settings)`: the text shall go on by one token, drawn so; without it there is no button for that.
export function runColumn(asking, write = null) {
  let trace = null;
  let named = null; // the run that is shown
  const layer = () => (trace.attention.length ? asking.layerOf(trace) : null);
  const query = () => asking.queryOf(trace, layer());
  const shares = () => (layer() ? sharesOf(trace, layer(), asking.headIn(layer()), query(), asking.settings()) : null);
  const legend = () => (asking.settings().mode === "backward" ? "dscores" : "share of attention");
  const isCross = () => Boolean(layer()) && layer().queries !== layer().keys;

  const bars = figure(livePicture("What the model says", () => barsPicture({
    title: "", names: trace.answer.classes, shares: trace.answer.probabilities, label: rightClass(trace.answer),
  })), { tools: "apart" });
  const input = figure(livePicture("The input, and the attention weights of a patch or token", () => (trace.input.kind === "image"
    ? imagePicture({ title: "", input: trace.input, shares, query, largest: LARGEST, legend: layer() ? legend : null })
    : tokensPicture({ title: "", tokens: trace.sequences[layer()?.queries ?? "tokens"], shares: () => (isCross() ? null : shares()), query, legend: layer() && !isCross() ? legend : null }))),
  {
    tools: "apart",
    onPoint: (cell) => asking.point(cell && { ...cell, input: trace.input }),
    onPick: (cell) => asking.pin({ ...cell, input: trace.input }),
    describe: ({ token }) => (trace.input.kind === "image" ? called(trace, token) : `token ${trace.sequences[layer()?.queries ?? "tokens"][token]}`),
  });
  const memory = figure(livePicture("The text that is read", () => tokensPicture({ title: "", tokens: trace.sequences[layer()?.keys ?? "tokens"], shares: () => (isCross() ? shares() : null), legend: isCross() ? legend : null })), { tools: false });
  const heads = headsView(asking);

  const name = h("h2");
  const about = h("p", { class: "small" });
  const refusal = h("p", { class: "refusal", role: "alert", hidden: true });
  const looking = h("p", { class: "small looking", role: "status" }, LOOKING);
  const best = h("p", { class: "best", role: "status" });
  const note = h("p", { class: "small note" });
  const drawing = { heat: 1, top_p: 1 };
  const seed = h("input", { type: "number", min: 0, max: 999999, step: 1, value: 0, "aria-label": "Seed" });
  const greedy = h("input", { type: "checkbox", "aria-label": "Greedy" });
  const how = h("div", { class: "how" }, h("label", {}, "Seed ", seed), h("label", {}, greedy, " greedy"), h("p", { class: "small" }, "Where the context is full, it goes on from the last half."));
  const next = h("div", { class: "next-room" });
  const writeOne = () => write({ temperature: drawing.heat, top_p: drawing.top_p, greedy: greedy.checked, seed: Math.max(0, Math.floor(Number(seed.value)) || 0) });
  const places = h("div", { class: "places" });
  const answer = h("section", { class: "answer-part" }, h("h3", {}, "Answer", bars.tools), bars.element, next, places, note);
  const caption = h("p", { class: "caption" });
  const strongest = h("dl", { class: "strongest" });
  const read = h("div", { class: "read" }, h("p", { class: "small" }, "the text that is read"), memory.element);
  const row = h("p", { class: "row" });
  const looked = h("section", { class: "looked-part" }, h("h3", {}, "What it sees", input.tools), row, h("div", { class: "scroll" }, input.element), read, caption, strongest);
  const shown = h("div", { class: "shown" }, looked, answer, h("section", { class: "heads-part" }, h("h3", {}, "All heads"), heads.element));
  const element = h("article", { class: "run-column" }, h("header", {}, h("div", { class: "who" }, name, about), best), refusal, looking, shown);
  shown.hidden = true;

  // Everything that follows from the answer.
  function tell() {
    const said = trace.answer;
    bars.element.hidden = bars.tools.hidden = !said.classes;
    if (said.classes) {
      const top = said.probabilities.indexOf(Math.max(...said.probabilities));
      best.replaceChildren(h("strong", { class: said.classes[top].length > 3 ? "long" : null }, visible(said.classes[top])), h("span", {}, percent(said.probabilities[top])));
      bars.picture.renew();
      bars.redraw();
    } else best.replaceChildren(...answerFacts(trace).map((fact) => h("span", {}, fact)));
    const asks = said.asked?.length ? nextSymbolView(trace, () => drawing, (changes) => Object.assign(drawing, changes), write && said.question === "next" ? writeOne : null) : null;
    next.replaceChildren(...(asks ? [asks.element, ...(write && said.question === "next" ? [how] : [])] : []));
    const isRight = said.classes && said.known && said.probabilities.indexOf(Math.max(...said.probabilities)) === said.label;
    note.textContent = said.classes && said.known
      ? `${isRight ? "Right" : `Wrong: it is ${visible(said.classes[said.label])}`} · loss ${number(said.loss, 3)}`
      : said.known ? "" : "The right answer is not known: backward shows the loss against the model’s own.";
    element.dataset.says = said.classes?.[said.probabilities.indexOf(Math.max(...said.probabilities))] ?? "";
  }

  // Everything that follows from what is pointed at.
  function point() {
    const now = layer();
    const at = query();
    input.redraw();
    showPlace(answer, trace, now, at);
    if (!now) {
      caption.textContent = "This model has no attention weights to show.";
      strongest.replaceChildren();
      return;
    }
    caption.textContent = words(trace, now, asking.settings(), at, { short: asking.settings().mode === "forward" });
    const given = shares();
    const names = trace.sequences[now.keys];
    const order = given ? Array.from(given.keys()).sort((a, b) => Math.abs(given[b]) - Math.abs(given[a])).slice(0, MOST) : [];
    const forward = asking.settings().mode === "forward";
    strongest.replaceChildren(...order.filter((i) => given[i] !== 0).map((i) => h("div", { "data-token": i, "data-value": given[i] },
      h("dt", {}, trace.input.kind === "text" ? `${i} ${visible(names[i] ?? "")}` : names[i]), h("dd", {}, forward ? percent(given[i]) : number(given[i], 2)))));
    if (isCross()) memory.redraw();
  }

  function redraw(isNew) {
    if (!trace) return;
    if (isNew) {
      input.picture.renew();
      memory.picture.renew();
      read.hidden = !isCross();
      input.element.hidden = trace.input.kind !== "image" && !trace.sequences[layer()?.queries ?? "tokens"].length;
    }
    point();
    heads.redraw(isNew);
  }

  return {
    element,
    // The run that the next preview will be of.
    call(run) {
      if (named !== run.name) this.wait(LOOKING);
      named = run.name;
      name.textContent = run.title;
      about.textContent = [run.model, run.parameters ? `${run.parameters.toLocaleString("en")} parameters` : "", run.accuracy == null ? "" : `${(100 * run.accuracy).toFixed(2)} % right`, run.data].filter(Boolean).join(" · ");
    },
    // There is no answer yet.
    wait(words) {
      refusal.hidden = shown.hidden = true;
      looking.hidden = false;
      looking.textContent = words;
      best.replaceChildren();
      element.dataset.says = "";
    },
    // A preview of the server, or its refusal.
    show(view) {
      looking.hidden = true;
      refusal.hidden = !view.error;
      refusal.textContent = view.error ?? "";
      shown.classList.toggle("old", Boolean(view.error));
      if (view.error) return;
      trace = openTrace(view);
      shown.hidden = false;
      element.dataset.kind = trace.input.kind;
      row.textContent = trace.input.kind === "row" ? trace.input.row.map((value) => String(Number(value.toPrecision(6)))).join(", ") : "";
      row.hidden = trace.input.kind !== "row";
      shown.lastChild.hidden = !trace.attention.length;
      tell();
      heads.show(trace);
      redraw(true);
    },
    redraw,
    // The answer in a few words, for where there is no room for more.
    inBrief: () => [name.textContent, h("span", {}, [...best.childNodes].map((part) => part.cloneNode(true)).flatMap((part) => [part, " "]))],
    trace: () => trace,
  };
}
