// A picture whose content changes while its place on the page stays: `make()` gives the picture of now.

export function livePicture(title, make) {
  let now = null;
  const current = () => (now ??= make());
  return {
    title,
    renew: () => { now = null; },
    height: (width) => current().height(width),
    draw: (surface, width, theme) => current().draw(surface, width, theme),
    hit: (x, y, width) => current().hit(x, y, width),
    box: (cell, width) => current().box?.(cell, width),
    move: (cell, dx, dy) => current().move(cell, dx, dy),
    first: () => current().first(),
  };
}
