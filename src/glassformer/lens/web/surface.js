// One set of drawing calls, two kinds of paper: a canvas for the screen and PNG, and SVG for saving.

const SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
const MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace";
const MOST_CELLS = 4096; // of an SVG in rectangles; more become a picture inside it

export function onCanvas(context) {
  return {
    rect(x, y, width, height, { fill, stroke, line = 1, radius = 0, opacity = 1 } = {}) {
      context.globalAlpha = opacity;
      context.beginPath();
      if (radius) context.roundRect(x, y, width, height, radius);
      else context.rect(x, y, width, height);
      if (fill) { context.fillStyle = fill; context.fill(); }
      if (stroke) { context.strokeStyle = stroke; context.lineWidth = line; context.stroke(); }
      context.globalAlpha = 1;
    },
    line(x1, y1, x2, y2, { stroke, line = 1, opacity = 1 }) {
      context.globalAlpha = opacity;
      context.strokeStyle = stroke;
      context.lineWidth = line;
      context.beginPath();
      context.moveTo(x1, y1);
      context.lineTo(x2, y2);
      context.stroke();
      context.globalAlpha = 1;
    },
    text(x, y, words, { fill, size = 12, align = "left", weight = 400, mono = false, upright = false }) {
      context.fillStyle = fill;
      context.font = `${weight} ${size}px ${mono ? MONO : SANS}`;
      context.textAlign = align;
      context.textBaseline = "alphabetic";
      if (!upright) return context.fillText(words, x, y);
      context.save();
      context.translate(x, y);
      context.rotate(-Math.PI / 2);
      context.fillText(words, 0, 0);
      context.restore();
    },
    raster(x, y, width, height, picture) {
      context.imageSmoothingEnabled = picture.width > width || picture.height > height;
      context.drawImage(picture, x, y, width, height);
    },
  };
}

export function onSvg() {
  const parts = [];
  const add = (tag, attributes, words) => {
    const written = Object.entries(attributes).filter(([, value]) => value != null)
      .map(([name, value]) => `${name}="${escape(typeof value === "number" ? round(value) : value)}"`).join(" ");
    parts.push(words == null ? `<${tag} ${written}/>` : `<${tag} ${written}>${escape(words)}</${tag}>`);
  };
  return {
    rect: (x, y, width, height, { fill = "none", stroke, line, radius, opacity } = {}) =>
      add("rect", { x, y, width, height, rx: radius || null, fill, stroke, "stroke-width": stroke ? line ?? 1 : null, opacity }),
    line: (x1, y1, x2, y2, { stroke, line = 1, opacity }) =>
      add("line", { x1, y1, x2, y2, stroke, "stroke-width": line, opacity }),
    text: (x, y, words, { fill, size = 12, align = "left", weight = 400, mono = false, upright = false }) =>
      add("text", { x, y, fill, transform: upright ? `rotate(-90 ${round(x)} ${round(y)})` : null, "font-size": size, "font-weight": weight, "font-family": mono ? MONO : SANS,
        "text-anchor": { left: "start", center: "middle", right: "end" }[align] }, words),
    raster(x, y, width, height, picture) {
      const { width: columns, height: rows } = picture;
      if (rows * columns > MOST_CELLS) {
        add("image", { x, y, width, height, preserveAspectRatio: "none", "image-rendering": "pixelated", href: picture.toDataURL() });
        return;
      }
      const pixels = picture.getContext("2d").getImageData(0, 0, columns, rows).data;
      const w = width / columns;
      const tall = height / rows;
      for (let row = 0; row < rows; row++) {
        for (let column = 0; column < columns;) {
          const at = 4 * (row * columns + column);
          let end = column + 1;
          while (end < columns && same(pixels, at, 4 * (row * columns + end))) end++;
          const opacity = pixels[at + 3] / 255;
          if (opacity) {
            add("rect", { x: x + column * w, y: y + row * tall, width: (end - column) * w, height: tall, "shape-rendering": "crispEdges",
              fill: `rgb(${pixels[at]},${pixels[at + 1]},${pixels[at + 2]})`, "fill-opacity": opacity < 1 ? opacity : null });
          }
          column = end;
        }
      }
    },
    written: (width, height, title) =>
      `<svg xmlns="http://www.w3.org/2000/svg" width="${round(width)}" height="${round(height)}" ` +
      `viewBox="0 0 ${round(width)} ${round(height)}"><title>${escape(title)}</title>${parts.join("\n")}</svg>`,
  };
}

function same(pixels, a, b) {
  return [0, 1, 2, 3].every((i) => pixels[a + i] === pixels[b + i]);
}

function round(value) {
  return Math.round(value * 1000) / 1000;
}

// XML knows no control characters but tab and line ends.
function escape(words) {
  return String(words).replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd")
    .replace(/[&<>"]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[sign]);
}

// A small canvas, one pixel per cell, coloured by `colourAt(row, column)` -> [red, green, blue, opacity 0..255].
export function cells(rows, columns, colourAt) {
  const canvas = document.createElement("canvas");
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  for (let row = 0, at = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++, at += 4) {
      const [red, green, blue, opacity = 255] = colourAt(row, column);
      image.data[at] = red;
      image.data[at + 1] = green;
      image.data[at + 2] = blue;
      image.data[at + 3] = opacity;
    }
  }
  context.putImageData(image, 0, 0);
  return canvas;
}
