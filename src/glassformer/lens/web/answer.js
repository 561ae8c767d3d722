// What the model says: every class, or token by token what it would have said.
import { h, number, percent, visible } from "./dom.js";
import { barsPicture } from "./bars.js";
import { figure } from "./figure.js";

export function answerLine(trace) {
  return answerFacts(trace).join(" · ");
}

// In a few words each: what it says, and the loss.
export function answerFacts({ answer }) {
  const against = answer.known ? "" : " against its own answer";
  const loss = answer.loss == null ? [] : [`loss ${number(answer.loss, answer.loss < 1e-3 ? 2 : 4)}${against}`];
  if (answer.classes) {
    const best = answer.probabilities.indexOf(Math.max(...answer.probabilities));
    return [`says ${visible(answer.classes[best])}, ${percent(answer.probabilities[best])}`, ...loss];
  }
  if (answer.numbers) return [`says ${answer.numbers.map(([name, said]) => `${visible(name)} ${number(said, 4)}`).join(", ")}`, ...loss];
  if (!answer.known) return [`the model’s answer at ${answer.places.length} tokens`, ...loss];
  const right = answer.places.filter(([best, , label]) => best === label).length;
  return [`${right} of ${answer.places.length} tokens right`, ...loss];
}

export function answerView(trace) {
  const { answer } = trace;
  if (answer.classes) {
    const drawn = figure(barsPicture({ title: "What the model says", names: answer.classes, shares: answer.probabilities, label: rightClass(answer) }), { tools: "apart" });
    return h("section", { class: "answer" }, h("h2", {}, "Answer", drawn.tools), drawn.element, note(answer));
  }
  return h("section", { class: "answer" }, h("h2", {}, "Answer"), answer.numbers ? numbersView(answer) : h("div", { class: "places" }), note(answer));
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
  const place = isWritten ? trace.answer.places?.[token] : null;
  if (!place) return room.replaceChildren();
  const [best, share, label, shareOfLabel] = place;
  const row = (name, word, p) => h("div", {}, h("dt", {}, name), h("dd", {}, h("code", {}, visible(word)), ` ${percent(p)}`));
  room.replaceChildren(h("dl", {}, row(`token ${token}: the model’s answer`, best, share), trace.answer.known ? row("right is", label, shareOfLabel) : null));
}
