// What the model says: every class, or token by token what it would have said.
import { h, percent, visible } from "./dom.js";
import { barsPicture } from "./bars.js";
import { figure } from "./figure.js";

export function answerLine({ answer }) {
  const loss = answer.loss == null ? "" : ` · loss ${answer.loss < 1e-3 ? answer.loss.toExponential(1) : answer.loss.toFixed(3)}`;
  if (answer.classes) {
    const best = answer.probabilities.indexOf(Math.max(...answer.probabilities));
    return `says ${visible(answer.classes[best])}, ${percent(answer.probabilities[best])}${loss}`;
  }
  const right = answer.places.filter(([best, , label]) => best === label).length;
  return `${right} of ${answer.places.length} tokens right${loss}`;
}

export function answerView(trace) {
  const { answer } = trace;
  if (answer.classes) {
    const drawn = figure(barsPicture({ title: "What the model says", names: answer.classes, shares: answer.probabilities, label: answer.label }));
    return h("section", { class: "answer" }, h("h2", {}, "Answer"), drawn.element, note(answer));
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
  room.replaceChildren(h("dl", {}, row(`at token ${token} it says`, best, share), row(trace.answer.known ? "right is" : "taken as right", label, shareOfLabel)));
}
