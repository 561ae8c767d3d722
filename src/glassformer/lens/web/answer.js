// What the model says: every class, or token by token what it would have said.
import { h, number, percent, visible } from "./dom.js";
import { barsPicture } from "./bars.js";
import { figure } from "./figure.js";
import { likenessView, similarityOf } from "./similarity.js";
import { growingText } from "./growing_text.js";
import { heatmap } from "./heatmap.js";
import { bestAt, nextSymbolView } from "./next_symbol.js";

export function answerLine(trace) {
  return answerFacts(trace).join(" · ");
}

// In a few words each: what it says, and the loss.
export function answerFacts(trace) {
  const { answer } = trace;
  const against = answer.known ? "" : " against its own answer";
  const loss = answer.loss == null ? [] : [`loss ${number(answer.loss, answer.loss < 1e-3 ? 2 : 4)}${against}`];
  if (answer.classes) {
    const best = answer.probabilities.indexOf(Math.max(...answer.probabilities));
    return [`says ${visible(answer.classes[best])}, ${percent(answer.probabilities[best])}`, ...loss];
  }
  if (answer.numbers) return [`says ${answer.numbers.map(([name, said]) => `${visible(name)} ${number(said, 4)}`).join(", ")}`, ...loss];
  if (answer.vector) return [`an embedding of ${answer.vector.join(" × ")} numbers`, ...loss];
  if (answer.written) return [`${answer.known ? "right is" : "writes"} “${visible(answer.written)}”`, ...loss];
  if (answer.asked?.length) {
    const found = answer.asked.slice(0, 3).map((one) => bestAt(trace, one)).map(([word, p]) => `“${visible(word)}”, ${percent(p)}`).join("; ");
    const many = answer.asked.length > 1 ? "masks" : "mask";
    return [`${answer.question === "mask" ? `at the ${many}` : "next"} ${found}`, ...rightFacts(answer), ...loss];
  }
  if (!answer.known) return [`the model’s answer at ${answer.places.length} tokens`, ...loss];
  return [...rightFacts(answer), ...loss];
}

// How many tokens are right, of those where the right answer is known.
function rightFacts({ known, places }) {
  const told = places.filter(([, , label]) => label != null);
  return known ? [`${told.filter(([best, , label]) => best === label).length} of ${told.length} tokens right`] : [];
}

// `writer` is { reason, next }: how the page writes on (growing_text.js), or why it cannot; null where nobody offers to.
export function answerView(trace, state = null, writer = null) {
  const { answer } = trace;
  if (answer.classes) {
    const drawn = figure(barsPicture({ title: "What the model says", names: answer.classes, shares: answer.probabilities, label: rightClass(answer) }), { tools: "apart" });
    return h("section", { class: "answer" }, h("h2", {}, "Answer", drawn.tools), drawn.element, note(answer));
  }
  if (answer.vector) return embeddingView(trace);
  if (answer.asked?.length) {
    const goesOn = writer && answer.question === "next";
    const grown = goesOn && !writer.reason ? growingText(trace, state, writer.next, (logits, where) => next.show(logits, where)) : null;
    const next = nextSymbolView(trace, state ? state.get : () => ({ heat: 1, top_p: 1 }), state?.set, grown?.write);
    return h("section", { class: "answer" }, h("h2", {}, answer.question === "mask" ? "At the mask" : "What comes next", next.tools), next.element, grown?.element, goesOn && writer.reason ? h("p", { class: "small" }, `It cannot write on here: ${writer.reason}.`) : null, h("div", { class: "places" }), note(answer));
  }
  return h("section", { class: "answer" }, h("h2", {}, "Answer"), answer.written ? writtenView(trace) : null, answer.numbers ? numbersView(answer) : h("div", { class: "places" }), note(answer));
}

// Of an encoder: how alike its tokens are in what it gives, or in what its pool reads.
function embeddingView(trace) {
  const name = lastOfTokens(trace);
  const told = h("p", { class: "small" }, "There is no loss for one text: the gradient is that of the sum of all numbers of the embedding.");
  if (!name) return h("section", { class: "answer" }, h("h2", {}, "Embedding"), told);
  const likeness = similarityOf(trace.tensor(name), 0, name);
  const words = trace.sequences.tokens;
  const labels = likeness.step === 1 ? { rows: words, columns: words } : null;
  const drawn = figure(heatmap({ title: `How alike tokens are: ${name}`, view: likenessView(likeness), rowName: "tokens", columnName: "tokens", range: [-1, 1], labels }), { tools: "apart" });
  return h("section", { class: "answer" }, h("h2", {}, "How alike tokens are", drawn.tools), drawn.element, h("p", { class: "small" }, `The cosine between the rows of ${name}.`), told);
}

// The last value with a row for each token.
function lastOfTokens({ overview = [], tensors, tensor }) {
  const flat = (lines) => lines.flatMap((line) => (line.kind === "group" ? flat(line.lines) : line.y ? [line.y] : []));
  return flat(overview).reverse().find((name) => tensors[name]?.axes[0] === "T" && tensor(name).shape.length === 2);
}

// Of a T5: what it reads, and what it writes.
function writtenView({ answer, sequences }) {
  return h("dl", { class: "written" },
    h("div", {}, h("dt", {}, "reads"), h("dd", {}, sequences.memory.join(""))),
    h("div", {}, h("dt", {}, answer.known ? "right is" : "writes"), h("dd", {}, h("strong", {}, answer.written))));
}

// Of a regression: each number, and the right one beside it where it is known.
function numbersView({ numbers, known }) {
  const right = (label) => (known ? ` · right is ${number(label, 4)}` : "");
  return h("dl", {}, numbers.map(([name, said, label]) => h("div", {}, h("dt", {}, visible(name)), h("dd", {}, `${number(said, 4)}${right(label)}`))));
}

// The class that is right, -1 where nobody knows it: then the label is the model's own answer.
export function rightClass(answer) {
  return answer.known ? answer.label : -1;
}

function note(answer) {
  return answer.known ? null : h("p", { class: "small" }, "The right answer is not known: the gradient is that of the loss against the model’s own answer.");
}

// Of a model that answers at every token: what it says at the one that is pointed at. The tokens of a text that is only
// read (an encoder's) have no answer.
export function showPlace(element, trace, layer, token) {
  const room = element.querySelector(".places");
  if (!room) return;
  const isWritten = (layer?.queries ?? "tokens") === "tokens";
  const isAsked = trace.answer.asked?.some(({ place: at }) => at === token); // then all its candidates are shown
  const place = isWritten && !isAsked ? trace.answer.places?.[token] : null;
  if (!place) return room.replaceChildren();
  const [best, share, label, shareOfLabel] = place;
  const row = (name, word, p) => h("div", {}, h("dt", {}, name), h("dd", {}, h("code", {}, visible(word)), ` ${percent(p)}`));
  room.replaceChildren(h("dl", {}, row(`token ${token}: the model’s answer`, best, share), trace.answer.known && label != null ? row("right is", label, shareOfLabel) : null));
}
