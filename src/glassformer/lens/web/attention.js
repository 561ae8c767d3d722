// The attention weights of a token: drawn over the image or the text, for one head; and small, for all heads of all layers.
import { choices, h, percent, visible } from "./dom.js";
import { colourOf, linesPicture } from "./attention_lines.js";
import { css } from "./colours.js";
import { matrix, withNumbers } from "./data.js";
import { figure } from "./figure.js";
import { heatmap } from "./heatmap.js";
import { imagePicture } from "./image.js";
import { attentionOf, patternOf } from "./softmax.js";
import { tokensPicture } from "./tokens.js";

const SCALES = [["", "Each row", "a row’s largest weight has the strongest colour"], ["shared", "Shared", "one scale for all rows"]];
const LOOKS = [["", "All heads", "every head of every layer"], ["lines", "Lines", "from token to token, a colour for each head"], ["matrix", "Matrix", "one head, with the tokens along both axes"]];

// What the token `query` gives, in one head; on the way back, what the loss would change about it.
export function sharesOf(trace, layer, head, query, settings) {
  if (query < 0) return null;
  if (settings.mode === "backward") {
    if (!trace.tensors[`${layer.name}.dscores`]) return null;
    const [, T, S] = trace.tensors[`${layer.name}.dscores`].shape;
    const t = Math.min(query, T - 1);
    return trace.ofHead(`${layer.name}.dscores`, head).subarray(t * S, (t + 1) * S);
  }
  return attentionOf(trace, layer, head, query, settings);
}

// A token of an image.
export function called(trace, token) {
  const name = trace.sequences.tokens[token];
  return token < (trace.input.first ?? 0) ? `the ${name} token` : `patch ${name}`;
}

export function words(trace, layer, settings, query, { short = false } = {}) {
  const who = trace.input.kind === "image" ? called(trace, query) : `token ${query} “${visible(trace.sequences[layer.queries][query] ?? "")}”`;
  if (settings.mode === "backward") {
    return short ? `How the loss pulls at ${who}` : `How the loss pulls at what ${who} looks at: orange scores should fall, blue ones rise.`;
  }
  return short ? `Attention weights of ${who}` : `Attention weights of ${who}.`;
}

// Where most of it goes: `Most to 5,3: 30.9 %.` Of a gradient nothing.
export function strongest(trace, layer, settings, query) {
  if (settings.mode === "backward") return "";
  const shares = sharesOf(trace, layer, settings.head, query, settings);
  if (!shares) return "";
  let best = 0;
  for (let i = 1; i < shares.length; i++) if (shares[i] > shares[best]) best = i;
  const key = visible(trace.sequences[layer.keys][best] ?? "");
  const most = trace.input.kind === "image" ? key : `token ${best} “${key}”`;
  return `Most to ${most}: ${percent(shares[best])}.`;
}

// What the numbers are that are drawn over the input.
function legendOf({ mode }) {
  return mode === "backward" ? "dscores" : "share of attention";
}

// Attention in three ways: all heads of all layers, lines between tokens, one head as a matrix.
export function attentionView(scene, on) {
  const { look } = scene.state.get();
  if (scene.layers.length && look === "lines") return linesView(scene, looks(scene));
  if (scene.layers.length && look === "matrix") return matrixView(scene, on, looks(scene));
  return mapsView(scene, on);
}

function looks({ state }) {
  return choices("Attention as", LOOKS, state.get().look, (look) => state.set({ look }));
}

function mapsView(scene, on) {
  const { trace, layers, settings, query } = scene;
  const header = (about) => h("header", {}, h("h2", {}, "All attention maps"), about);
  if (!layers.length) return h("article", { class: "step" }, header(h("p", { class: "about" }, "This model has no attention weights to show.")));
  const about = h("p", { class: "about" });
  const told = (layer, head, cell) => {
    if (cell) about.textContent = `${layer.title}, head ${head}: token ${cell.row} “${visible(trace.sequences[layer.queries][cell.row] ?? "")}” gives ${percent(patternOf(trace, layer, head, settings())[cell.row * trace.sequences[layer.keys].length + cell.column])} to token ${cell.column} “${visible(trace.sequences[layer.keys][cell.column] ?? "")}”.`;
    on.ask(cell && layer.queries === scene.layer().queries ? cell.row : -1);
  };
  const maps = attentionMaps(trace, settings, query, (layer, head) => scene.chooseLayer(layer, { head }), told);
  const scale = trace.input.kind === "text" && settings().mode === "forward" ? choices("Scale", SCALES, settings().scale, (one) => scene.state.set({ scale: one })) : null;
  const update = () => {
    const asked = words(trace, scene.layer(), settings(), query(), { short: true });
    if (!maps.isPointed()) about.textContent = trace.input.grid ? `${asked}, in every head of every layer. Point at the input to ask for another.` : `Every head of every layer: rows are queries, columns are keys. Framed: ${asked[0].toLowerCase()}${asked.slice(1)}. Point at the input to ask for another.`;
    maps.mark(scene.layer().name, scene.head());
  };
  update();
  return { element: h("article", { class: "step" }, header([h("div", { class: "pick" }, looks(scene), scale), about]), maps.element), maps: { redraw: () => { update(); maps.redraw(); } } };
}

// Lines between the tokens of one layer. Point at a token: only its lines; a head can be left out.
function linesView(scene, choose) {
  const { trace, state } = scene;
  const layer = scene.layer();
  const named = state.get().heads ? state.get().heads.split("-").map(Number).filter((head) => head < layer.heads) : [];
  const shown = new Set(named.length ? named : Array.from({ length: layer.heads }, (_, i) => i));
  let key = -1;
  const picture = linesPicture({
    title: `${layer.title}: attention between tokens`, queries: trace.sequences[layer.queries], keys: trace.sequences[layer.keys],
    patternOf: (head) => patternOf(trace, layer, head, scene.settings()), heads: () => [...shown], query: scene.query, key: () => key,
  });
  const drawn = figure(picture, {
    tools: "apart",
    describe: ({ side, token }) => `${side} ${token} ${trace.sequences[side === "query" ? layer.queries : layer.keys][token]}`,
    onPoint: (cell) => {
      key = cell?.side === "key" ? cell.token : -1;
      picture.pointed = Boolean(cell);
      scene.hover(cell?.side === "query" ? cell.token : -1);
      scene.told();
    },
    onPick: ({ side, token }) => { if (side === "query") state.set({ token }); },
  });
  const toggle = (head) => {
    const next = new Set(shown);
    if (!next.delete(head)) next.add(head);
    state.set({ heads: next.size && next.size < layer.heads ? [...next].sort((a, b) => a - b).join("-") : "" });
  };
  const chips = h("div", { class: "chips", role: "group", "aria-label": "Heads" }, Array.from({ length: layer.heads }, (_, head) => {
    const dot = h("span", { class: "dot" });
    dot.style.background = css(colourOf(head));
    return h("button", { type: "button", class: "chip", "aria-pressed": String(shown.has(head)), onclick: () => toggle(head) }, dot, `head ${head}`);
  }));
  const sides = layer.queries === layer.keys ? ["queries", "keys"] : ["queries: the text that is written", "keys: the text that is read"];
  return {
    element: h("article", { class: "step" },
      h("header", {}, h("h2", {}, layer.title, drawn.tools), choose, h("p", { class: "about" }, "Each line is an attention weight: the stronger, the more. Point at a token to see its lines alone.")),
      chips, h("div", { class: "sides" }, sides.map((side) => h("span", {}, side))), h("div", { class: "lines" }, drawn.element)),
    maps: { redraw: () => drawn.redraw() },
  };
}

// One head, large.
function matrixView(scene, on, choose) {
  const { trace, state } = scene;
  const layer = scene.layer();
  const settings = scene.settings();
  const backward = settings.mode === "backward" && trace.tensors[`${layer.name}.dscores`];
  const tensor = trace.tensor(`${layer.name}.${backward ? "dscores" : "pattern"}`);
  const view = withNumbers(matrix(tensor, settings), backward ? trace.ofHead(tensor.name, scene.head()) : patternOf(trace, layer, scene.head(), settings));
  const drawn = figure(patternPicture(trace, layer, scene.head(), settings, 620), {
    tools: "apart",
    describe: ({ row, column }) => `query ${row}, key ${column}: ${view.at(row, column)}`,
    onPoint: (cell) => { on.point(tensor, view, cell); on.ask(cell ? cell.row : -1); },
    onPick: (cell) => { state.set({ token: cell.row }); },
  });
  const scale = backward ? null : choices("Scale", SCALES, settings.scale, (one) => state.set({ scale: one }));
  const frame = () => drawn.mark(scene.query() < view.rows ? [{ row: scene.query() }] : []);
  requestAnimationFrame(frame); // then it has its size
  return {
    element: h("article", { class: "step" }, h("header", {}, h("h2", {}, `${layer.title}, head ${scene.head()}`, drawn.tools), h("div", { class: "pick" }, choose, scale),
      h("p", { class: "about" }, "Rows are queries, columns are keys. Point at a cell: its row is the attention of that token.")), h("div", { class: "matrix" }, drawn.element)),
    maps: { redraw: frame },
  };
}

// All layers and heads at once, for the token that asks. They are made one after the other, a frame for each, so that
// the page stays awake while many large patterns are worked out.
export function attentionMaps(trace, settings, query, choose, told = () => {}) {
  let pointed = false;
  const figures = [];
  const thumbs = [];
  const waiting = [];
  const rows = trace.attention.map((layer) => h("section", { class: "layer" },
    h("h3", { class: "section" }, layer.title),
    h("div", { class: trace.input.kind === "image" ? "thumbs" : "thumbs broad" }, Array.from({ length: layer.heads }, (_, head) => {
      const name = h("button", { type: "button", class: "thumb-name", onclick: () => choose(layer.name, head) }, `head ${head}`);
      const room = h("div", { class: "thumb" }, h("div", { class: "thumb-head" }, name));
      thumbs.push({ layer, head, room });
      waiting.push(() => {
        const drawn = figure(pictureOf(layer, head), {
          onPick: () => choose(layer.name, head), plain: true, tools: "apart",
          onPoint: trace.input.kind === "text" ? (cell) => { pointed = Boolean(cell); told(layer, head, cell); } : null,
        });
        drawn.layer = layer;
        figures.push(drawn);
        room.firstChild.append(drawn.tools);
        room.append(drawn.element);
        show(drawn);
      });
      return room;
    }))));
  const element = h("div", { class: "maps" }, rows);

  function pictureOf(layer, head) {
    const title = `${layer.title}, head ${head}`;
    return trace.input.kind === "image" && trace.input.grid
      ? imagePicture({ title, input: trace.input, grid: false, legend: () => "", shares: () => sharesOf(trace, layer, head, query(), settings()), query })
      : patternPicture(trace, layer, head, settings());
  }

  function next() {
    const started = performance.now();
    while (waiting.length && performance.now() - started < 12) waiting.shift()();
    if (waiting.length && (element.isConnected || !figures.length)) requestAnimationFrame(next);
  }
  requestAnimationFrame(next);
  // Over an image the shares are drawn anew; in a pattern the row of the token that asks is framed.
  function show(one) {
    if (trace.input.kind === "image") one.redraw();
    else one.mark(query() < one.picture.rows ? [{ row: query() }] : []);
  }

  return {
    element,
    isPointed: () => pointed,
    redraw: () => figures.forEach(show),
    mark: (name, head) => thumbs.forEach((one) => one.room.classList.toggle("chosen", one.layer.name === name && one.head === head)),
  };
}

export function patternPicture(trace, layer, head, settings, tallest = 320) {
  const backward = settings.mode === "backward" && trace.tensors[`${layer.name}.dscores`];
  const tensor = trace.tensor(`${layer.name}.${backward ? "dscores" : "pattern"}`);
  const view = backward ? matrix(tensor, { head }) : withNumbers(matrix(tensor, { head }), patternOf(trace, layer, head, settings));
  const labels = { rows: trace.sequences[layer.queries], columns: trace.sequences[layer.keys] };
  return heatmap({ title: `${tensor.name}, head ${head}`, view, rowName: "queries", columnName: "keys", tallest, labels: trace.input.kind === "text" ? labels : null, perRow: !backward && settings.scale !== "shared" });
}

// One head in a few pixels: over the image, or as its pattern.
export function smallHead(trace, layer, head, settings, query) {
  const title = `${layer.title}, head ${head}`;
  if (trace.input.grid) return imagePicture({ title, input: trace.input, grid: false, shares: () => sharesOf(trace, layer, head, query(), settings()), query });
  const tensor = trace.tensor(`${layer.name}.pattern`);
  return heatmap({ title, view: withNumbers(matrix(tensor, { head }), patternOf(trace, layer, head, settings())), scale: false, perRow: true });
}

// The input with the attention of the chosen token over it; a text that looks at another text is drawn with both.
export function inputFigures(trace, layer, get) {
  const shares = () => (layer ? sharesOf(trace, layer, get.head(), get.query(), get.settings()) : null);
  const legend = () => legendOf(get.settings());
  const on = { onPoint: get.onPoint, onPick: get.onPick, tools: "apart" };
  if (trace.input.kind === "image") {
    return [figure(imagePicture({ title: `${trace.input.name}: attention weights of a patch`, input: trace.input, shares, query: get.query, largest: 380, legend: layer ? legend : null }), { ...on, describe: ({ token }) => called(trace, token) })];
  }
  const describe = ({ token }) => `token ${token}`;
  const tokens = trace.sequences[layer?.queries ?? "tokens"];
  if (!layer || layer.queries === layer.keys) {
    return tokens.length ? [figure(tokensPicture({ title: `${trace.input.name}`.slice(0, 60), tokens, shares, query: get.query, legend: layer ? legend : null }), { ...on, describe })] : [];
  }
  return [
    figure(tokensPicture({ title: "the text that is written", tokens, query: get.query }), { ...on, describe }),
    figure(tokensPicture({ title: "the text that is read", tokens: trace.sequences[layer.keys], shares, legend }), { tools: "apart" }),
  ];
}
