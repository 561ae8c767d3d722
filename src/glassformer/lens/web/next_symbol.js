// What comes next, or stands at a mask: the likeliest symbols with their probabilities, at a temperature and a top-p.
import { choices, h, visible } from "./dom.js";
import { barsPicture } from "./bars.js";
import { bytesOf } from "./data.js";
import { distribution, likeliest } from "./distribution.js";
import { figure } from "./figure.js";
import { livePicture } from "./live_picture.js";

const SHOWN = 10;

export const logitsOf = ({ logits }) => new Float32Array(bytesOf(logits).buffer);

// The likeliest symbol and its probability, as the model gives them.
export function bestAt(trace, asked) {
  const p = distribution(logitsOf(asked));
  const [best] = likeliest(p, 1);
  return [trace.words[best] ?? String(best), p[best]];
}

// `get()` gives { heat, top_p }, `set(changes)` changes them; without `set` there are no controls.
// `write(symbol)`: the text shall go on with this symbol; where it is given there is a button.
export function nextSymbolView(trace, get, set, write = null) {
  const { asked, question } = trace.answer;
  let chosen = 0;
  let grown = null; // what stands behind a text that has grown in the page: { logits, where }
  const all = asked.map((one) => ({ place: one.place, logits: logitsOf(one) }));
  const logits = () => (grown ?? all[chosen]).logits;
  const now = () => distribution(logits(), { temperature: get().heat, topP: get().top_p });
  const drawn = figure(livePicture(titleOf(trace, question), () => {
    const p = now();
    const order = likeliest(p, SHOWN);
    return barsPicture({ title: titleOf(trace, question), names: order.map((i) => trace.words[i] ?? String(i)), shares: order.map((i) => p[i]), label: -1 });
  }), { tools: "apart" });
  const told = h("p", { class: "small next-of" });

  function draw() {
    const { place } = all[chosen];
    const kept = now().filter((one) => one > 0).length;
    const where = grown?.where ?? (question === "mask" ? `At token ${place}, ${visible(trace.sequences.tokens[place] ?? "")}` : `After token ${place} “${visible(trace.sequences.tokens[place] ?? "")}”`);
    told.textContent = kept < logits().length ? `${where}: ${kept} of ${logits().length} symbols stay.` : `${where}, of ${kept} symbols.`;
    drawn.picture.renew();
    drawn.resize();
    drawn.redraw();
  }

  const masks = all.length > 1 ? choices("Mask", all.map(({ place }, i) => [i, String(place), `token ${place}`]), 0, (i) => { chosen = i; masks.choose(i); draw(); }) : null;
  const slider = (name, label, input, shown) => {
    const output = h("output", { for: name }, shown());
    const range = h("input", { type: "range", id: name, "aria-label": label, ...input });
    range.addEventListener("input", () => { set(input.take(Number(range.value))); output.textContent = shown(); draw(); });
    return h("div", { class: "field" }, h("label", { class: "label", for: name }, label), range, output);
  };
  const controls = set ? h("div", { class: "fields" },
    slider("heat", "Temperature", { min: -3, max: 3, step: 0.25, value: Math.log2(get().heat), take: (x) => ({ heat: Number((2 ** x).toPrecision(3)) }) }, () => String(get().heat)),
    slider("top_p", "Top-p", { min: 0.05, max: 1, step: 0.05, value: get().top_p, take: (x) => ({ top_p: Number(x.toFixed(2)) }) }, () => String(get().top_p))) : null;
  const button = write ? h("button", { type: "button", class: "plain-button", onclick: () => write(likeliest(now(), 1)[0]) }, "Write one more") : null;
  draw();
  return { element: h("div", { class: "next-symbol", "data-best": bestAt(trace, asked[0])[0] }, masks, drawn.element, told, controls, button), tools: drawn.tools, draw, show: (found, where) => { grown = { logits: found, where }; draw(); } };
}

function titleOf(trace, question) {
  return question === "mask" ? "What stands at the mask" : "What comes next";
}
