// The attention weights of a token: drawn over the image or the text, for one head; and small, for all heads of all layers.
import { h, percent, visible } from "./dom.js";
import { matrix, withNumbers } from "./data.js";
import { figure } from "./figure.js";
import { heatmap } from "./heatmap.js";
import { imagePicture } from "./image.js";
import { attentionOf, patternOf } from "./softmax.js";
import { tokensPicture } from "./tokens.js";

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

export function words(trace, layer, settings, query, { short = false } = {}) {
  const who = trace.input.kind === "image" ? (trace.sequences.tokens[query] === "class" ? "the class token" : `patch ${trace.sequences.tokens[query]}`) : `token ${query} “${visible(trace.sequences[layer.queries][query] ?? "")}”`;
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

// The view of all heads.
export function attentionView(scene) {
  const { trace, layers, settings, query } = scene;
  const header = (about) => h("header", {}, h("h2", {}, "All attention maps"), about);
  if (!layers.length) return h("article", { class: "step" }, header(h("p", { class: "about" }, "This model has no attention weights to show.")));
  const about = h("p", { class: "about" });
  const maps = attentionMaps(trace, settings, query, (layer, head) => scene.chooseLayer(layer, { head }));
  const update = () => {
    about.textContent = `${words(trace, scene.layer(), settings(), query(), { short: true })}, in every head of every layer. Point at the input to ask for another.`;
    maps.mark(scene.layer().name, scene.head());
  };
  update();
  return { element: h("article", { class: "step" }, header(about), maps.element), maps: { redraw: () => { update(); maps.redraw(); } } };
}

// All layers and heads at once, for the token that asks. They are made one after the other, a frame for each, so that
// the page stays awake while many large patterns are worked out.
export function attentionMaps(trace, settings, query, choose) {
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
        const drawn = figure(pictureOf(layer, head), { onPick: () => choose(layer.name, head), plain: true, tools: "apart" });
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
    redraw: () => figures.forEach(show),
    mark: (name, head) => thumbs.forEach((one) => one.room.classList.toggle("chosen", one.layer.name === name && one.head === head)),
  };
}

export function patternPicture(trace, layer, head, settings) {
  const backward = settings.mode === "backward" && trace.tensors[`${layer.name}.dscores`];
  const tensor = trace.tensor(`${layer.name}.${backward ? "dscores" : "pattern"}`);
  const view = backward ? matrix(tensor, { head }) : withNumbers(matrix(tensor, { head }), patternOf(trace, layer, head, settings));
  return heatmap({ title: `${tensor.name}, head ${head}`, view, rowName: "queries", columnName: "keys", tallest: 320 });
}

// The input with the attention of the chosen token over it; a text that looks at another text is drawn with both.
export function inputFigures(trace, layer, get) {
  const shares = () => (layer ? sharesOf(trace, layer, get.head(), get.query(), get.settings()) : null);
  const legend = () => legendOf(get.settings());
  const on = { onPoint: get.onPoint, onPick: get.onPick, tools: "apart" };
  if (trace.input.kind === "image") {
    return [figure(imagePicture({ title: `${trace.input.name}: attention weights of a patch`, input: trace.input, shares, query: get.query, largest: 380, legend: layer ? legend : null }), { ...on, describe: ({ token }) => `patch ${trace.sequences.tokens[token]}` })];
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
