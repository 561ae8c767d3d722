// What if: heads off, tokens hidden or others, an image drawn on, another temperature, a named value scaled or replaced;
// everything behind it is worked out again, through to the answer.
import { h, number, percent, visible } from "./dom.js";
import { probabilities } from "./what_if_engine.js";
import { described } from "./what_if_changes.js";
import { inputControls } from "./what_if_input.js";
import { headTable, positionTable } from "./what_if_tables.js";

const SHOWN = 8; // classes or symbols in the comparison
const TO_INPUT = ["token", "image"];
const kept = new WeakMap(); // of each trace, the changes: they stay while other tabs are looked at

export function whatIfView({ trace }, engine) {
  if (!kept.has(trace)) kept.set(trace, { changes: [], place: trace.answer.asked?.[0]?.place ?? (trace.answer.places?.length ?? 1) - 1 });
  const state = kept.get(trace);
  const list = h("ul", { class: "changes", "aria-label": "Changes" });
  const answer = h("div", { class: "outcome", "aria-live": "polite" });
  const tables = h("div", { class: "what-if-tables" });
  let usual = null;
  let asked = 0;

  // One change of a kind at a place: the new one takes the place of the old one; null takes it away.
  const key = ({ change, layer, head, position, sequence, name }) => [change, layer, head, position, sequence, name].join("|");
  const set = (change, isOn = true) => {
    state.changes = [...state.changes.filter((one) => key(one) !== key(change)), ...(isOn ? [change] : [])];
    update();
  };
  const has = (change) => state.changes.find((one) => key(one) === key(change));
  const controls = [];

  async function update() {
    list.replaceChildren(...state.changes.map((change) => h("li", {}, described(change, trace),
      h("button", { type: "button", class: "tool", "aria-label": `Undo: ${described(change, trace)}`, onclick: () => set(change, false) }, "✕"))));
    controls.forEach((one) => one.update());
    const turn = ++asked;
    try {
      usual ??= await engine.ask([], state.place);
      const now = state.changes.length ? await engine.ask(state.changes, state.place) : usual;
      if (turn === asked) answer.replaceChildren(comparison(now));
    } catch (error) {
      if (turn === asked) answer.replaceChildren(h("p", { class: "refusal", role: "alert" }, error.message));
    }
  }

  // Before and after, the likeliest first.
  function comparison(now) {
    const places = trace.answer.places;
    const many = usual.logits.shape.at(-1);
    const isNumbers = Boolean(trace.answer.numbers);
    const read = ({ logits }) => (isNumbers ? Array.from(logits.data) : probabilities(logits, state.place));
    const [before, after] = [read(usual), read(now)];
    const names = trace.answer.classes ?? trace.answer.numbers?.map(([name]) => name) ?? trace.words;
    const size = (i) => Math.max(before[i], after[i]);
    const order = [...before.keys()].sort((a, b) => (isNumbers ? 0 : size(b) - size(a))).slice(0, SHOWN);
    const best = (of) => of.indexOf(of.reduce((a, b) => Math.max(a, b)));
    const shown = isNumbers ? (x) => number(x, 4) : percent;
    const word = (i) => visible(names[i] ?? String(i));
    const select = places ? h("label", { class: "field" }, h("span", { class: "label" }, trace.answer.question === "mask" ? "At token" : "After token"), placeSelect()) : null;
    const said = isNumbers ? "" : best(before) === best(after) ? `The answer stays ${word(best(after))}.` : `The answer was ${word(best(before))}, now it is ${word(best(after))}.`;
    const loss = now.loss == null ? "" : ` Loss ${number(usual.loss, 4)} → ${number(now.loss, 4)}.`;
    return h("div", {}, select, h("p", { class: "said" }, state.changes.length ? said + loss : "Nothing is changed yet."),
      h("table", { class: "plain" }, h("thead", {}, h("tr", {}, ["", "before", "after", "change"].map((one) => h("th", { scope: "col" }, one)))),
        h("tbody", {}, order.map((i) => h("tr", { class: i === best(after) && !isNumbers ? "best" : "" },
          h("th", { scope: "row" }, word(i)), h("td", {}, shown(before[i])), h("td", {}, shown(after[i])), h("td", {}, signed(after[i] - before[i], isNumbers)))))),
      many > SHOWN ? h("p", { class: "small" }, `The ${order.length} likeliest of ${many.toLocaleString("en")}, before or after.`) : null);
  }

  function placeSelect() {
    return h("select", { "aria-label": "Answer at which token", onchange: ({ target }) => { state.place = Number(target.value); usual = null; update(); } },
      trace.sequences.tokens.map((token, i) => h("option", { value: i, selected: i === state.place }, `${i} ${visible(token)}`)));
  }

  const room = h("fieldset", { class: "what-if-controls", disabled: Boolean(engine.reason), "aria-label": "What to change" });
  const add = (part) => { if (part) { controls.push(part); room.append(part.element); } };
  add(headControls(trace, { set, has }));
  add(inputControls(trace, { set, has, state }));
  add(temperatureControl(trace, { set, has }));
  add(valueControls(trace, { set }, () => state.changes.some(({ change }) => TO_INPUT.includes(change))));

  const edits = () => state.changes.filter(({ change }) => TO_INPUT.includes(change));
  const reset = h("button", { type: "button", class: "plain-button", onclick: () => { state.changes = []; update(); } }, "Undo all");
  const element = h("section", { class: "what-if" },
    h("header", {}, h("h2", {}, "What if"), h("p", { class: "about" }, "Change the input, or what flows through the model. Everything behind the change is worked out again, through to the answer, ", engine.where ?? "", ".")),
    engine.reason ? h("p", { class: "refusal", role: "note" }, `Greyed out: ${engine.reason}. In the studio (glassformer studio) the server works it out.`) : h("p", { class: "small checked" }, checkedWords(engine)),
    h("div", { class: "what-if-columns" }, room,
      h("div", {}, h("h3", {}, "Changes"), list, reset, h("h3", {}, "Answer"), answer, tables)));
  if (!engine.reason) {
    tables.append(headTable(trace, engine), positionTable(trace, engine, { edits, place: () => state.place }));
    update();
  }
  return element;
}

function checkedWords(engine) {
  const found = engine.check?.();
  if (!found) return "Worked out by the model itself, on the studio’s server.";
  return `Checked: with nothing changed, this page gives every value of the run; the largest difference is ${number(found.difference, 2)} of a value’s largest number${found.name ? ` (${found.name})` : ""}${found.loss == null ? "" : `; the loss differs by ${number(found.loss, 2)}`}.`;
}

function signed(x, isNumber) {
  const size = isNumber ? number(Math.abs(x), 4) : percent(Math.abs(x));
  return /[1-9]/.test(size) ? `${x < 0 ? "−" : "+"}${size}` : size;
}

// A button for each head: pressed, it is off.
function headControls(trace, { set, has }) {
  if (!trace.attention.length) return null;
  const buttons = [];
  const rows = trace.attention.map(({ name: layer, title, heads }) => [h("span", { class: "label" }, title),
    h("div", { class: "head-buttons" }, Array.from({ length: heads }, (_, head) => {
      const change = { change: "head-off", layer, head };
      const button = h("button", { type: "button", class: "toggle", title: `head ${head} of ${layer}`, "aria-label": `${title}, head ${head} off`, onclick: () => set(change, !has(change)) }, String(head));
      buttons.push([button, change]);
      return button;
    }))]);
  return {
    element: h("div", { class: "what-if-group" }, h("h3", {}, "Heads off"), h("div", { class: "head-rows" }, rows)),
    update: () => buttons.forEach(([button, change]) => button.setAttribute("aria-pressed", String(Boolean(has(change))))),
  };
}

function temperatureControl(trace, { set, has }) {
  if (!trace.attention.length) return null;
  const slider = h("input", { type: "range", min: -3, max: 3, step: 0.25, value: 0, "aria-label": "Attention temperature" });
  const shown = h("output", {}, "1");
  const value = () => Number((2 ** Number(slider.value)).toPrecision(3));
  slider.addEventListener("input", () => set({ change: "temperature", value: value() }, value() !== 1));
  return {
    element: h("div", { class: "what-if-group" }, h("h3", {}, "Attention temperature"), h("p", { class: "small" }, h("code", {}, "pattern = softmax(scores / temperature)"), ", in every layer"),
      h("div", { class: "field wide" }, slider, shown)),
    update() {
      const now = has({ change: "temperature" })?.value ?? 1;
      slider.value = Math.log2(now);
      shown.textContent = String(now);
    },
  };
}

// A named value times a number, or a number in its place; all of it, or one head, one position.
function valueControls(trace, { set }, hasOther) {
  const names = trace.names.filter((name) => trace.tensors[name].kind === "value" && trace.tensors[name].equation && !name.startsWith("loss."));
  const id = `values-${Math.random().toString(36).slice(2)}`;
  const name = h("input", { list: id, "aria-label": "Name of the value", placeholder: names.find((one) => one.endsWith(".z")) ?? names[0] });
  const what = h("select", { "aria-label": "What to do with it" }, [["scale", "times"], ["replace", "replaced by"], ["swap", "of the changed input"]].map(([value, words]) => h("option", { value }, words)));
  const by = h("input", { type: "number", step: "any", value: 0, "aria-label": "Number" });
  const head = h("input", { type: "number", min: 0, placeholder: "all", "aria-label": "Head" });
  const position = h("input", { type: "number", min: 0, placeholder: "all", "aria-label": "Position" });
  const problem = h("p", { class: "small refusal", hidden: true });
  const refuse = (words) => { problem.textContent = words; problem.hidden = !words; };
  const apply = () => {
    if (!names.includes(name.value)) return refuse(name.value ? `No value is called ${name.value}.` : "Which value? Its name is needed.");
    if (what.value === "swap" && !hasOther()) return refuse("Change a token or the image first: the value is taken from there.");
    refuse("");
    const where = { ...(head.value === "" ? {} : { head: Number(head.value) }), ...(position.value === "" ? {} : { position: Number(position.value) }) };
    const numbers = { scale: { by: Number(by.value) }, replace: { value: Number(by.value) }, swap: {} }[what.value];
    set({ change: what.value, name: name.value, ...numbers, ...where });
  };
  what.addEventListener("change", () => { by.disabled = what.value === "swap"; });
  return {
    element: h("div", { class: "what-if-group" }, h("h3", {}, "A named value"), h("datalist", { id }, names.map((one) => h("option", { value: one }))),
      h("div", { class: "value-form" }, name, what, by, h("label", {}, "head ", head), h("label", {}, "position ", position), h("button", { type: "button", class: "plain-button", onclick: apply }, "Apply")), problem),
    update() {},
  };
}
