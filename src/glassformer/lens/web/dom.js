// Elements from plain calls. Text is always text: nothing from outside can become markup.

export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.setAttribute("class", value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child != null && child !== false));
  return element;
}

// A row of buttons of which one is chosen: [[value, label, title], …].
export function choices(label, options, chosen, choose) {
  const group = h("div", { class: "choices", role: "radiogroup", "aria-label": label });
  const buttons = options.map(([value, text, title]) =>
    h("button", { type: "button", role: "radio", title, "data-value": value, onclick: () => choose(value) }, text),
  );
  group.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    const at = buttons.indexOf(document.activeElement);
    const next = buttons[(at + step + buttons.length) % buttons.length];
    next.focus();
    next.click();
    event.preventDefault();
    event.stopPropagation();
  });
  group.append(...buttons);
  group.choose = (value) => {
    buttons.forEach((button, i) => {
      const is = options[i][0] === value;
      button.setAttribute("aria-checked", is);
      button.tabIndex = is ? 0 : -1;
    });
  };
  group.choose(chosen);
  return group;
}

// A number as people read it: about `digits` that count, never a long tail.
export function number(value, digits = 4) {
  if (value === 0) return "0";
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "not a number" : value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  const text = size >= 1e6 || size < 1e-4 ? value.toExponential(digits - 1) : value.toPrecision(digits);
  const plain = text.includes("e") ? text.replace(/e([+-])(\d+)/, (_, sign, power) => `e${sign === "-" ? "−" : ""}${power}`) : text;
  return plain.replace(/^-/, "−");
}

// A share in per cent that never rounds up to certainty.
export function percent(share) {
  const shown = 100 * share;
  return `${share < 1 && shown >= 99.95 ? "99.9" : shown.toFixed(1)} %`;
}

// Tokens and class names with their white space made visible.
export function visible(token) {
  return token === "" ? "∅" : token.replaceAll("\n", "⏎").replaceAll("\t", "⇥").replaceAll(" ", "·");
}

// For and against in two colours of the page, as strong as the number is large: so far that words on it can still be read.
export function shaded(element, share, strongest = 45) {
  const strength = Math.round(Math.min(Math.abs(share), 1) * strongest);
  element.style.setProperty("background", `color-mix(in srgb, var(${share < 0 ? "--accent" : "--mark"}) ${strength}%, transparent)`);
  return element;
}
