// What the model says: every class, or token by token what it would have said.
import { h, number, percent, visible } from "./dom.js";
import { barsPicture } from "./bars.js";
import { figure } from "./figure.js";

export function answerLine(trace) {
  return answerFacts(trace).join(" · ");
}

// In a few words each: what it says, and the loss.
export function answerFacts({ answer }) {
  const loss = answer.loss == null ? [] : [`loss ${number(answer.loss, answer.loss < 1e-3 ? 2 : 4)}`];
  if (answer.classes) {
    const best = answer.probabilities.indexOf(Math.max(...answer.probabilities));
    return [`says ${visible(answer.classes[best])}, ${percent(answer.probabilities[best])}`, ...loss];
  }
  const right = answer.places.filter(([best, , label]) => best === label).length;
  return [`${right} of ${answer.places.length} tokens right`, ...loss];
}

export function answerView(trace) {
  const { answer } = trace;
  if (answer.classes) {
    const drawn = figure(barsPicture({ title: "What the model says", names: answer.classes, shares: answer.probabilities, label: answer.label }), { tools: "apart" });
    return h("section", { class: "answer" }, h("h2", {}, "Answer", drawn.tools), drawn.element, note(answer));
  }
  return h("section", { class: "answer" }, h("h2", {}, "Answer"), h("div", { class: "places" }), note(answer));
}

function note(answer) {
  return answer.known ? null : h("p", { class: "small" }, "The right answer is not known: the gradient is that of the loss against the model’s own answer.");
}

// Of a model that answers at every token: what it says at the one that is pointed at.
export function showPlace(element, trace, token) {
  const room = element.querySelector(".places");
  const place = trace.answer.places?.[token];
  if (!room || !place) return;
  const [best, share, label, shareOfLabel] = place;
  const row = (name, word, p) => h("div", {}, h("dt", {}, name), h("dd", {}, h("code", {}, visible(word)), ` ${percent(p)}`));
  room.replaceChildren(h("dl", {}, row(`token ${token}: it says`, best, share), row(trace.answer.known ? "right is" : "taken as right", label, shareOfLabel)));
}
