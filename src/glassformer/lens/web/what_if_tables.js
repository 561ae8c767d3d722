// Tables of many changes: every head off, one by one; and the stream of the changed input put in, block by block and
// position by position (activation patching).
import { h, number, shaded, visible } from "./dom.js";
import { tokenValues } from "./token_values.js";

const MOST_NAMES = 1000; // of classes or symbols, to choose one

function table(title, about, words, work, more = null) {
  const room = h("div", { class: "scroll" });
  const run = async () => {
    button.disabled = true;
    room.replaceChildren(h("p", { class: "small" }, "Working …"));
    await new Promise((done) => { setTimeout(done, 0); });
    try {
      room.replaceChildren(await work());
    } catch (error) {
      room.replaceChildren(h("p", { class: "refusal", role: "alert" }, error.message));
    }
    button.disabled = false;
  };
  const button = h("button", { type: "button", class: "plain-button", onclick: run }, words);
  return h("div", { class: "what-if-table" }, h("h3", {}, title), h("p", { class: "small" }, about), more, button, room);
}

export function headTable(trace, engine) {
  if (!trace.attention.length) return "";
  return table("Every head off, one by one", "How much the loss changes without each head; above zero, the answer gets worse.", "Work it out", async () => {
    const heads = await engine.heads();
    const most = Math.max(...heads.map(({ change }) => Math.abs(change)), 1e-12);
    return h("table", { class: "plain" }, h("thead", {}, h("tr", {}, ["layer", "head", "loss", "change"].map((one) => h("th", { scope: "col" }, one)))),
      h("tbody", {}, heads.map(({ layer, head, loss, change }) => h("tr", { "data-head": `${layer} ${head}` }, h("th", { scope: "row" }, layer), h("td", {}, head), h("td", {}, number(loss, 5)),
        shaded(h("td", {}, signed(change)), change / most)))));
  });
}

export function positionTable(trace, engine, { edits, place }) {
  if (!trace.streams?.length) return "";
  const about = "The residual stream of the changed input is put in at one block and one position at a time; each cell is the change of one logit. Where it is large, that place carries the difference.";
  const names = trace.answer.classes ?? trace.answer.numbers?.map(([word]) => word) ?? trace.words;
  const chosen = h("select", { "aria-label": "Logit of" }, h("option", { value: "" }, "what the changed input is taken for"),
    names.slice(0, MOST_NAMES).map((word, i) => h("option", { value: i }, visible(word))));
  return table("Activation patching", about, "Work it out", async () => {
    if (!edits().length) throw new Error("Change a token or the image first: its stream is what is put in.");
    const changed = await engine.ask(edits());
    const { shape, data } = changed.logits;
    const K = shape.at(-1);
    const row = shape.length === 1 ? data : data.subarray(place() * K, (place() + 1) * K);
    const label = chosen.value ? Number(chosen.value) : row.indexOf(row.reduce((a, b) => Math.max(a, b)));
    const found = await engine.positions(edits(), { label, place: shape.length === 1 ? null : place() });
    const most = Math.max(...Object.values(found.rows).flat().map(Math.abs), 1e-12);
    const name = visible(names[label] ?? String(label));
    return h("div", {}, h("p", { class: "small" }, `Logit of ${name}: ${number(found.before, 4)} as it is, ${number(found.other, 4)} with the changed input.`),
      Object.entries(found.rows).map(([stream, row_]) => h("div", { class: "patch-row" }, h("code", {}, stream),
        tokenValues(trace, trace.tensors[stream]?.axes[0] === "S" ? "memory" : "tokens", row_, most))));
  }, h("label", { class: "field" }, h("span", { class: "label" }, "Logit of"), chosen));
}

const signed = (x) => `${x < 0 ? "−" : "+"}${number(Math.abs(x), 3)}`;
