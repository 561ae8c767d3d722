"use strict";
// What the page can do beyond being read: a seed under the pointer in all rows, tables sorted, pictures saved, themes.

const root = document.documentElement;
const tip = document.getElementById("tip");

for (const dot of document.querySelectorAll(".seed")) { // the browser's own tip would lie over ours
  dot.dataset.said = dot.textContent;
  dot.replaceChildren();
}

function point(dot) {
  for (const one of document.querySelectorAll(".seed.same")) one.classList.remove("same");
  for (const one of document.querySelectorAll(".pointing")) one.classList.remove("pointing");
  tip.classList.toggle("on", Boolean(dot));
  if (!dot) return;
  const figure = dot.closest("figure");
  figure.classList.add("pointing");
  dot.classList.add("same");
  for (const one of figure.querySelectorAll(".seed")) {
    if (dot.dataset.seed && one.dataset.seed === dot.dataset.seed) one.classList.add("same");
  }
  tip.textContent = dot.dataset.said;
  const place = dot.getBoundingClientRect();
  const left = Math.min(Math.max(8, place.x + place.width / 2 - tip.offsetWidth / 2), innerWidth - tip.offsetWidth - 8);
  const above = place.y - tip.offsetHeight - 8;
  tip.style.transform = `translate(${left}px, ${above < 4 ? place.bottom + 8 : above}px)`;
}
for (const kind of ["pointerover", "click"]) {
  document.addEventListener(kind, (event) => point(event.target.closest(".seed")));
}
addEventListener("scroll", () => point(null), { passive: true });

for (const table of document.querySelectorAll(".sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  const written = [...body.rows];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const turns = column ? ["descending", "ascending", null] : ["ascending", "descending", null];
      const order = turns[(turns.indexOf(head.getAttribute("aria-sort")) + 1) % 3];
      for (const one of heads) one.removeAttribute("aria-sort");
      if (order) head.setAttribute("aria-sort", order);
      const sign = order === "descending" ? -1 : 1;
      const by = (row) => row.cells[column].dataset.by;
      const compare = (a, b) => sign * (column ? by(a) - by(b) : by(a).localeCompare(by(b)));
      body.append(...(order ? [...written].sort(compare) : written));
    });
  });
}

for (const button of document.querySelectorAll(".save")) {
  button.hidden = false;
  button.addEventListener("click", () => {
    const picture = button.parentElement.querySelector(".wide").cloneNode(true);
    const [, , width, height] = picture.getAttribute("viewBox").split(" ");
    picture.setAttribute("width", width);
    picture.setAttribute("height", height);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(picture)], { type: "image/svg+xml" }));
    link.download = `${button.dataset.name}.svg`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
}

const theme = document.createElement("button");
theme.type = "button";
theme.className = "theme";
theme.textContent = "Light or dark";
theme.addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});
document.body.prepend(theme);
