// Why: what the answer is made of, asked in several ways. The numbers come from Python (glassformer/lens/why.py), where the
// same objects print; each part says how to read it, and its formula.
import { h, number, percent, shaded, visible } from "./dom.js";
import { tokenValues } from "./token_values.js";

const TITLES = { "logit lens": "Logit lens", attribution: "Direct attribution", rollout: "Attention rollout", "gradient x attention": "Gradient × attention", ablation: "Every head off", health: "Health" };

export function whyView({ trace }) {
  const parts = trace.why ?? [];
  return h("section", { class: "why" },
    h("header", {}, h("h2", {}, "Why"), h("p", { class: "about" }, parts.length ? about(trace) : "Of this model nothing is asked here.")),
    h("div", { class: "why-parts" }, parts.map((part) => h("article", { class: "why-part", "data-part": part.title },
      h("h3", {}, TITLES[part.title] ?? part.title), h("p", { class: "small" }, part.read), part.formula ? h("code", { class: "formula" }, part.formula) : null,
      part.reason ? h("p", { class: "reason" }, `Does not apply: ${part.reason}.`) : drawn(trace, part)))));
}

function about(trace) {
  const { question, places } = trace.answer;
  const place = trace.why.find((part) => part.place != null)?.place;
  const said = places?.[place]?.[0];
  const where = place == null ? "" : `, ${question === "mask" ? "at" : "after"} token ${place} “${visible(trace.sequences.tokens[place] ?? "")}”${said == null ? "" : `: “${visible(said)}”`}`;
  return `What the answer is made of${where}. The same in Python: lens.logit_lens, lens.attribution, lens.rollout, lens.gradient_rollout, lens.ablate_each, lens.health.`;
}

function drawn(trace, part) {
  return [part.blocks && blocks(part), part.parts && amounts(part), part.maps?.map(({ title, sequence, row }) => h("div", { class: "note" }, h("p", { class: "small" }, title), tokenValues(trace, sequence, Array.from(row)))), part.heads && heads(trace, part), part.findings && findings(part)].filter(Boolean);
}

const table = (head, rows) => h("div", { class: "scroll" }, h("table", { class: "plain" }, h("thead", {}, h("tr", {}, head.map((one) => h("th", { scope: "col" }, one)))), h("tbody", {}, rows)));

function blocks({ blocks: rows }) {
  return table(["read from", ...rows[0][1].map((_, i) => (i ? `${i + 1}.` : "likeliest"))], rows.map(([name, best]) =>
    h("tr", {}, h("th", { scope: "row" }, named(name)), best.map(([word, p]) => h("td", {}, visible(word), h("span", { class: "small" }, percent(p)))))));
}

function amounts({ label, logit, parts, rest }) {
  const most = Math.max(...parts.map(([, amount]) => Math.abs(amount)), 1e-12);
  const rows = parts.map(([name, amount]) => h("tr", {}, h("th", { scope: "row" }, named(name)), shaded(h("td", {}, signed(amount)), amount / most)));
  if (rest != null) rows.push(h("tr", {}, h("th", { scope: "row" }, "all others"), h("td", {}, signed(rest))));
  rows.push(h("tr", { class: "best" }, h("th", { scope: "row" }, "sum"), h("td", {}, signed(logit))));
  return table([`logit of ${visible(label)}`, "adds"], rows);
}

function heads(trace, { heads: rows }) {
  const titleOf = (layer) => trace.attention.find(({ name }) => name === layer)?.title ?? layer;
  const most = Math.max(...rows.map(([, , , change]) => Math.abs(change)), 1e-12);
  return table(["layer", "head", "loss", "change"], rows.map(([layer, head, loss, change]) =>
    h("tr", {}, h("th", { scope: "row", title: layer }, titleOf(layer)), h("td", {}, head), h("td", {}, number(loss, 4)), shaded(h("td", {}, signed(change)), change / most))));
}

function findings({ findings: rows }) {
  const alarming = rows.filter((one) => one.alarming);
  const list = (of) => h("ul", {}, of.map(({ text }) => h("li", {}, text)));
  const rest = rows.filter((one) => !one.alarming);
  return h("div", {}, alarming.length ? list(alarming) : h("p", {}, "Nothing stands out."),
    rest.length ? h("details", {}, h("summary", {}, `${rest.length} numbers within bounds`), list(rest)) : null);
}

// A dotted name, which may break behind a dot.
const named = (name) => h("code", {}, name.split(/(?<=\.)/).map((part, i) => [i ? h("wbr") : null, part]));

const signed = (x) => `${x < 0 ? "−" : "+"}${number(Math.abs(x), 4)}`;
