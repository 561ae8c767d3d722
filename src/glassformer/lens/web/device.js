// The device at the desk: its own numbers beside those of the run, and where they differ most (glassformer/lens/device.py).
import { h, number, visible } from "./dom.js";
import { axisName } from "./axes.js";
import { bytesOf, labelOf } from "./data.js";

const KINDS = { logits: "logits", attention: "attention weights", loss: "loss", gradient: "gradient" };
const unpacked = new WeakMap();

// What the device has for a number of a tensor, or of the tensor that has the same numbers, and how far it is from the
// run's: [number, difference]; null where it sent none.
export function deviceNumber(trace, name, at) {
  const values = trace.device?.values ?? {};
  const root = (one) => trace.tensors[one]?.same ?? one;
  const key = name in values ? name : Object.keys(values).find((one) => trace.tensors[one] && root(one) === root(name));
  if (!key) return null;
  const entry = values[key];
  const floats = (text) => text && new Float32Array(bytesOf(text).buffer);
  if (!unpacked.has(entry)) unpacked.set(entry, { data: floats(entry.data), apart: floats(entry.apart), came: entry.came && bytesOf(entry.came) });
  const { data, apart, came } = unpacked.get(entry);
  if (came && !((came[at >> 3] >> (7 - (at & 7))) & 1)) return null;
  return [data[at], apart ? apart[at] : data[at] - trace.numberAt(name, at)];
}

// In a few words: by how much it differs.
export function deviceFacts({ device }) {
  return device ? [`device differs by at most ${size(worst(device.compared).largest)}`] : [];
}

export function deviceView({ trace, state, stepOf }) {
  const { device } = trace;
  const most = worst(device.compared);
  const head = ["value", "", "numbers", "largest difference", "relative", "where", "device", "host"];
  return h("section", { class: "why" },
    h("header", {}, h("h2", {}, "Device"),
      h("p", { class: "about" }, `What ${device.name} (${device.source}) made of the same input, beside the run’s own numbers. Point at a cell in the walk: the device’s number stands beside it.`),
      device.without ? h("p", { class: "refusal" }, `No loss and no gradients: ${device.without}.`) : null),
    h("div", { class: "scroll device-table" }, h("table", { class: "plain" },
      h("thead", {}, h("tr", {}, head.map((one) => h("th", { scope: "col", title: one === "relative" ? "over the largest number; of a gradient, over the largest of its layer" : null }, one)))),
      h("tbody", {}, device.compared.map((one) => h("tr", { class: one === most ? "best" : "", "data-value": one.name },
        h("th", { scope: "row" }, trace.tensors[one.name] ? h("button", { type: "button", class: "link", title: "To the number that differs most", onclick: () => show(one) }, one.name) : one.name),
        h("td", {}, KINDS[one.kind]),
        h("td", { title: one.numbers < one.of ? "a query that nobody reads is not computed on the device" : "" }, one.numbers < one.of ? `${count(one.numbers)} of ${count(one.of)}` : count(one.numbers)),
        h("td", {}, size(one.largest)),
        h("td", {}, one.largest == null || !one.scale ? "–" : number(one.largest / one.scale, 2)),
        h("td", {}, place(trace, one)),
        h("td", {}, plain(one.device)), h("td", {}, plain(one.host))))))));

  // The cell that differs most, in the walk.
  function show({ name, where }) {
    const [row, column] = where.length > 1 ? where.slice(-2) : [0, where[0] ?? 0];
    const mode = ["gradient", "dweight"].includes(trace.tensors[name].kind) ? "backward" : "forward";
    state.set({ tab: "walk", mode, step: stepOf(name)?.id ?? "", tensor: name, cell: `${name}@${row},${column}`, ...(where.length > 2 ? { head: where[0] } : {}) });
  }
}

const count = (many) => many.toLocaleString("en");
const plain = (value) => (value == null ? "not finite" : number(value, 7));
const size = (largest) => (largest == null ? "not a number" : number(largest, 2));
const worst = (compared) => compared.reduce((most, one) => ((one.largest ?? Infinity) > (most.largest ?? Infinity) ? one : most));

// `head 0 · query 10 “1,3” · key 16 “2,2”`
function place(trace, { name, kind, where }) {
  const tensor = trace.tensors[name];
  const names = kind === "attention" ? ["head", "query", "key"] : (tensor?.axes ?? []).map((axis) => axisName(axis));
  return where.map((at, i) => {
    const label = tensor ? labelOf(trace, { name, ...tensor }, tensor.axes[i], at) : String(at);
    return `${names[i] || "number"} ${at}${label === String(at) ? "" : ` “${visible(label)}”`}`;
  }).join(" · ");
}
