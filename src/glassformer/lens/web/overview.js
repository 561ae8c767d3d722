// The whole model in one picture: its layers along the residual stream, tokens as columns. Orange: how much a part adds
// to the stream; blue: the gradient that comes back. A click opens a part where it stands.
import { h, number, percent, visible } from "./dom.js";
import { answerFacts } from "./answer.js";
import { called, smallHead } from "./attention.js";
import { tokensInFront } from "./data.js";
import { figure } from "./figure.js";
import { withGlossary } from "./glossary.js";
import { stepView } from "./step.js";
import { stripPicture } from "./strip.js";
import { mean, norms, shareAdded, shareChanged } from "./token_norms.js";

const MOST_HEADS = 8;
const MOST_TOKENS = 256; // of longer texts heads are not drawn here
const MOST_OPEN = 14; // lines: of a model with more, blocks are closed

export function overviewView(scene, on) {
  const { trace, state } = scene;
  const { part, mode } = state.get();
  const path = pathTo(trace.overview, part);
  const opensAll = countLines(trace.overview) <= MOST_OPEN;
  const isOpen = (group) => opensAll || path.includes(group) || group.lines.some((one) => one.kind === "group");
  const figures = [];
  const measured = measure(trace, trace.overview);
  const limits = {
    added: Math.max(1, ...measured.map(({ added }) => (added ? Math.max(...added) : 0))),
    gradient: Math.max(1e-30, ...measured.map(({ gradient }) => (gradient ? Math.max(...gradient) : 0))),
  };
  const about = h("p", { class: "told", role: "status" });
  const go = (id) => state.set({ tab: "model", part: id });

  function drawLines(lines) {
    return lines.map((one) => (one.kind === "group" ? drawGroup(one) : drawLine(one)));
  }

  function drawGroup(group) {
    const open = isOpen(group);
    const parent = path[path.indexOf(group) - 1]?.id ?? "";
    const head = h("button", { type: "button", class: "group-head", "data-part": group.id, "aria-expanded": String(open), title: group.about,
      onclick: () => go(part === group.id ? parent : group.id) },
    h("span", { class: "turn", "aria-hidden": "true" }, open ? "▾" : "▸"), h("strong", {}, group.name), h("span", { class: "what" }, group.title),
    h("small", {}, `${group.parameters.toLocaleString("en")} parameters`));
    return h("section", { class: open ? "block open" : "block" },
      open ? head : h("div", { class: "line adds" }, wire("⊕"), h("div", { class: "boxes" }, head), ...strength(group)),
      open ? h("div", { class: "inner" }, drawLines(group.lines)) : null);
  }

  function drawLine(line) {
    const shown = line.boxes.find(({ id }) => id === part);
    return [
      h("div", { class: `line ${line.kind}`, "data-sum": line.kind === "adds" ? line.y : null }, wire(line.kind === "adds" ? "⊕" : ""),
        h("div", { class: "boxes" }, line.boxes.map((box, i) => [i ? h("span", { class: "arrow", "aria-hidden": "true" }, "→") : null, drawBox(box)])),
        ...strength(line)),
      opensAll ? smallHeads(line) : null,
      shown ? inPlace(shown) : null,
    ];
  }

  function drawBox(box) {
    const layer = trace.attention.find(({ name }) => name === box.id || name.startsWith(`${box.id}.`));
    const own = box.id.replace(/.*?([^.]+(\.\d+)?)$/, "$1").replace(".", " ");
    const more = [own, layer && layer.heads > 1 ? `${layer.heads} heads` : "", layer && layer.keys !== layer.queries ? "reads the encoder" : "", box.parameters ? count(box.parameters) : "", box.shared.length ? `reads ${box.shared.join(", ")}` : ""];
    const kind = layer ? "box attends" : box.parameters || box.shared.length ? "box" : "box plain";
    return h("button", { type: "button", class: kind, "data-part": box.id, "aria-expanded": String(box.id === part), title: `${box.id} · ${box.about}`,
      onclick: () => go(box.id === part ? parentOf(box.id) : box.id) },
    h("span", {}, titleOf(trace, box)), h("small", {}, more.filter(Boolean).join(" · ")));
  }

  // Every head of an attention layer, small: the attention of the token that asks over the image, or the pattern.
  function smallHeads(line) {
    const layer = trace.attention.find(({ name }) => line.boxes.some(({ id }) => name === id || name.startsWith(`${id}.`)));
    if (!layer || layer.heads > MOST_HEADS || trace.sequences[layer.queries].length > MOST_TOKENS) return null;
    return h("div", { class: "thumbs-line" }, h("span"), h("div", { class: "small-heads" }, Array.from({ length: layer.heads }, (_, head) => {
      const drawn = figure(smallHead(trace, layer, head, scene.settings, scene.query), { tools: false, plain: true });
      if (trace.input.grid) figures.push(drawn);
      return h("button", { type: "button", class: "small-head", title: `${layer.title}, head ${head}: larger`, onclick: () => state.set({ tab: "attention", layer: layer.name, head, look: trace.input.grid ? "" : "matrix" }) }, drawn.element, `head ${head}`);
    })));
  }

  const parentOf = (id) => pathTo(trace.overview, id).at(-2)?.id ?? "";

  // The layer's own step, where it stands.
  function inPlace(box) {
    const steps = trace.steps.filter(({ id }) => id === box.id || id.startsWith(`${box.id}.`));
    return h("div", { class: "in-place" }, steps.map((step) => stepView(trace, step, scene.settings(), on)),
      steps.length ? h("p", {}, h("button", { type: "button", class: "link", onclick: () => scene.chooseStep(steps[0].id) }, "Show it in the walk")) : h("p", { class: "hint" }, "Nothing is named inside."));
  }

  // A cell for each token, and in words and bars: what is added, and what comes back.
  function strength(line) {
    const { added, size, gradient, shape } = measured.find(({ of }) => of === line);
    const backward = mode === "backward";
    const values = backward ? gradient : added ?? size;
    const strip = values && figure(stripPicture({
      title: `${line.y ?? line.id}: ${backward ? "gradient at each token" : added ? "share that is added at each token" : "length at each token"}`,
      values, limit: backward ? limits.gradient : added ? limits.added : Math.max(...values), kind: backward ? "back" : added ? "adds" : "size", query: () => asks(line),
    }), {
      tools: false, onPoint: (cell) => tell(line, cell, values), onPick: ({ token }) => state.set({ token: token + before(line) }),
      describe: ({ token }) => words(line, token, values),
    });
    if (strip) figures.push(strip);
    return [
      h("div", { class: "tokens" }, strip ? strip.element : null),
      h("div", { class: "amount" },
        added ? bar("adds", `+${percent(mean(added))}`, mean(added) / limits.added, `what it adds beside the stream: the mean of |${line.added ?? "y − x"}| / |${line.stream ?? "x"}| over the tokens`)
          : h("span", { class: "shape", title: "shape of what comes out" }, shape.join(" × ")),
        gradient ? bar("back", `∇ ${number(mean(gradient), 2)}`, mean(gradient) / limits.gradient, `the gradient that comes back: the mean of |${line.gradient ?? "dy"}| over the tokens`) : null),
    ];
  }

  const sequenceOf = (line) => (trace.tensors[line.y]?.axes[0] === "S" && trace.sequences.memory.length ? "memory" : "tokens");
  const before = ({ y }) => (trace.tensors[y] ? tokensInFront(trace, trace.tensor(y), trace.tensors[y].axes[0]) : 0);
  const asks = (line) => (sequenceOf(line) === (scene.layer()?.queries ?? "tokens") ? scene.query() - before(line) : -1);

  function words(line, token, values) {
    const name = trace.sequences[sequenceOf(line)][token + before(line)];
    const who = trace.input.grid ? called(trace, token + before(line)) : `token ${token}${name == null ? "" : ` “${visible(name)}”`}`;
    const { added } = measured.find(({ of }) => of === line);
    if (mode === "backward") return `${who}: the gradient of ${line.y ?? line.id} has length ${number(values[token], 3)}`;
    return added ? `${who}: ${line.id ?? line.boxes.at(-1)?.id ?? "the sum"} adds ${percent(values[token])} of the length of the stream` : `${who}: ${line.y} has length ${number(values[token], 3)}`;
  }

  function tell(line, cell, values) {
    about.textContent = cell ? words(line, cell.token, values) : legend();
    on.ask(cell && sequenceOf(line) === (scene.layer()?.queries ?? "tokens") ? cell.token + before(line) : -1);
  }

  const legend = () => (mode === "backward"
    ? "Blue: the length of the gradient at each token, on its way from the loss back to the input."
    : !measured.some(({ added }) => added) ? "Grey: the length of what comes out, at each token. ∇: the gradient that comes back."
    : "Orange: what a part adds to the residual stream, at each token, as a share of its length. ∇: the gradient that comes back.");
  about.textContent = legend();

  const element = h("article", { class: "overview", "aria-label": "The whole model" },
    h("header", {}, crumbs(trace, path, go), h("p", { class: "about" }, withGlossary(trace.about)), about),
    h("div", { class: "stream" }, end("first", "Input", inputWords(trace)), drawLines(trace.overview), end("last", "Answer", answerFacts(trace)[0])));
  // The step that is being read: its box, or the sum that it is.
  function mark(step) {
    element.querySelectorAll(".now").forEach((one) => one.classList.remove("now"));
    if (!step) return;
    const found = [...element.querySelectorAll("button[data-part], [data-sum]")].filter(({ dataset }) => dataset.sum === step.id || dataset.part === step.id || step.id.startsWith(`${dataset.part}.`)).at(-1);
    const room = found ?? (step.id === "loss" ? element.querySelector(".end.last") : null);
    room?.classList.add("now");
    room?.scrollIntoView({ block: "nearest" });
  }

  const opened = part && element.querySelector(`button[data-part="${CSS.escape(part)}"]`);
  if (opened) requestAnimationFrame(() => opened.scrollIntoView({ block: "nearest" }));
  return { element, maps: { redraw: () => figures.forEach((one) => one.redraw()) }, mark };
}

function crumbs(trace, path, go) {
  const words = [["", trace.model], ...path.map((one) => [one.id, one.name ?? titleOf(trace, one)])];
  return h("nav", { class: "crumbs", "aria-label": "Where this is" }, words.map(([id, name], i) => [
    i ? h("span", { "aria-hidden": "true" }, " / ") : null,
    i === words.length - 1 ? h("strong", { "aria-current": "location" }, name) : h("button", { type: "button", class: "link", onclick: () => go(id) }, name)]));
}

// A layer that reads another text is called so, whatever it is called elsewhere.
function titleOf(trace, box) {
  const layer = trace.attention.find(({ name }) => name === box.id || name.startsWith(`${box.id}.`));
  return layer && layer.keys !== layer.queries ? "Cross-attention" : box.title;
}

function end(name, title, words) {
  return h("div", { class: `line end ${name}` }, wire("●"), h("p", {}, h("strong", {}, title), ` ${words}`));
}

function inputWords({ input, sequences }) {
  if (input.kind === "image") return `${input.shape.join(" × ")}${input.grid ? `, ${input.grid.join(" × ")} patches` : ""}`;
  if (input.kind === "row") return `${input.row.length} numbers`;
  return sequences.memory.length ? `${sequences.memory.length} tokens that are read, ${sequences.tokens.length} that are written` : `${sequences.tokens.length} tokens`;
}

function wire(sign) {
  return h("span", { class: "wire", "aria-hidden": "true" }, sign ? h("span", {}, sign) : null);
}

function bar(kind, text, share, title) {
  const inside = h("span", { class: "fill" });
  inside.style.width = `${Math.max(2, 100 * Math.sqrt(Math.min(share, 1)))}%`;
  return h("span", { class: `strength ${kind}`, title }, h("span", { class: "rod" }, inside), h("output", {}, text));
}

const count = (many) => (many >= 1e6 ? `${(many / 1e6).toFixed(1)} M` : many >= 1e4 ? `${Math.round(many / 1e3)} K` : many.toLocaleString("en"));

// Groups and the box that lead to a part.
export function pathTo(lines, id) {
  for (const line of id ? lines : []) {
    if (line.kind !== "group") {
      const box = line.boxes.find((one) => one.id === id);
      if (box) return [box];
    } else if (line.id === id) return [line];
    else {
      const inside = pathTo(line.lines, id);
      if (inside.length) return [line, ...inside];
    }
  }
  return [];
}

function countLines(lines) {
  return lines.reduce((sum, line) => sum + (line.kind === "group" ? countLines(line.lines) : 1), 0);
}

// Of every line, token by token: what it adds, how long what comes out is, and the gradient there.
function measure(trace, lines) {
  return lines.flatMap((line) => {
    const [first, last] = line.kind === "group" ? ends(line) : [null, line];
    const of = { of: line, shape: trace.tensors[last.y]?.shape ?? [], size: norms(trace, last.y), gradient: norms(trace, last.gradient) };
    const added = line.kind === "group" ? shareChanged(trace, first?.stream, last.y) : line.kind === "adds" ? shareAdded(trace, line) : null;
    return [{ ...of, added }, ...(line.kind === "group" ? measure(trace, line.lines) : [])];
  });
}

// The first line that reads the stream, and the last that gives it on.
function ends(group) {
  const flat = group.lines.flatMap((line) => (line.kind === "group" ? ends(line) : [line]));
  return [flat.find((line) => line?.stream), flat.at(-1)];
}
