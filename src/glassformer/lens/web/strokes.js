// Strokes as the pixels a model reads: bright on black, drawn large, each pixel the mean of what lies under it.
//
// Digits of MNIST fill a box of 20 x 20 and have their centre of mass in the middle of 28 x 28. `centre` does the same
// to strokes: their places are moved and stretched, the pen stays as broad as it is.
import { cells } from "./surface.js";

const FINE = 4; // pixels drawn for one pixel of the image, along each side
const BOX = 20 / 28; // of the image, what the longer side of the ink fills
const MOST = 3; // times: a dot is not blown up to a digit
export const PEN = 2.7 / 28; // breadth, of the image's shorter side
export const RUBBER = 4.5 / 28;

// { image: pixels or null, strokes: [{ points: [[x, y], …] in 0..1, erases }] } as Uint8Array of the shape.
export function pixelsOf({ image, strokes }, shape, centre) {
  const [rows, columns] = shape;
  let moved = { scale: 1, x: 0, y: 0 };
  if (centre && !image && strokes.length) {
    const place = boundsOf(drawn({ strokes }, rows, columns, moved), columns * FINE, rows * FINE);
    if (place) {
      moved = fitted(place, rows, columns);
      const [x, y] = massOf(meansOf(drawn({ strokes }, rows, columns, moved), rows, columns), columns);
      moved = { ...moved, x: moved.x + columns / 2 - x, y: moved.y + rows / 2 - y };
    }
  }
  return strokes.length || !image ? spread(drawn({ image, strokes }, rows, columns, moved), shape) : image;
}

// The strokes on a context of any size; `moved` in pixels of the image.
export function drawStrokes(context, strokes, width, height, moved = { scale: 1, x: 0, y: 0 }, unit = 1) {
  const side = Math.min(width, height);
  context.lineCap = context.lineJoin = "round";
  for (const { points, erases } of strokes) {
    context.strokeStyle = erases ? "#000000" : "#ffffff";
    context.lineWidth = side * (erases ? RUBBER * moved.scale : PEN);
    context.beginPath();
    points.forEach(([x, y], i) => {
      const to = [x * width * moved.scale + moved.x * unit, y * height * moved.scale + moved.y * unit];
      if (i) context.lineTo(...to);
      else context.moveTo(...to);
    });
    if (points.length === 1) context.lineTo(points[0][0] * width * moved.scale + moved.x * unit + 0.01, points[0][1] * height * moved.scale + moved.y * unit);
    context.stroke();
  }
}

export function canvasOf(pixels, [rows, columns, channels]) {
  return cells(rows, columns, (row, column) => {
    const at = (row * columns + column) * channels;
    return channels === 1 ? [pixels[at], pixels[at], pixels[at]] : [pixels[at], pixels[at + 1], pixels[at + 2]];
  });
}

let paper = null; // one canvas, used again and again

function drawn({ image, strokes }, rows, columns, moved) {
  const width = columns * FINE;
  const height = rows * FINE;
  if (paper?.canvas.width !== width || paper?.canvas.height !== height) {
    const canvas = document.createElement("canvas");
    canvas.width = width;
    canvas.height = height;
    paper = canvas.getContext("2d", { willReadFrequently: true });
  }
  paper.fillStyle = "#000000";
  paper.fillRect(0, 0, width, height);
  if (image) {
    paper.imageSmoothingEnabled = false;
    paper.drawImage(canvasOf(image, [rows, columns, image.length / (rows * columns)]), 0, 0, width, height);
  }
  drawStrokes(paper, strokes, width, height, moved, FINE);
  return paper.getImageData(0, 0, width, height).data;
}

// Around everything bright, in pixels of the image.
function boundsOf(data, width, height) {
  let [left, top, right, bottom] = [width, height, -1, -1];
  for (let y = 0, at = 0; y < height; y++) {
    for (let x = 0; x < width; x++, at += 4) {
      if (data[at] < 128) continue;
      left = Math.min(left, x);
      right = Math.max(right, x);
      top = Math.min(top, y);
      bottom = Math.max(bottom, y);
    }
  }
  return right < 0 ? null : { left: left / FINE, right: (right + 1) / FINE, top: top / FINE, bottom: (bottom + 1) / FINE };
}

// The middle of the pen goes along a path as long as the box is, less the pen's own breadth.
function fitted({ left, right, top, bottom }, rows, columns) {
  const pen = PEN * Math.min(rows, columns);
  const longest = Math.max(right - left - pen, bottom - top - pen, 1e-6);
  const scale = Math.min((BOX * Math.min(rows, columns) - pen) / longest, MOST);
  return { scale, x: columns / 2 - (scale * (left + right)) / 2, y: rows / 2 - (scale * (top + bottom)) / 2 };
}

// One mean for each pixel of the image, of the red channel: strokes are grey.
function meansOf(data, rows, columns, channel = 0) {
  const means = new Float32Array(rows * columns);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      let sum = 0;
      for (let y = 0; y < FINE; y++) {
        for (let x = 0; x < FINE; x++) sum += data[4 * ((row * FINE + y) * columns * FINE + column * FINE + x) + channel];
      }
      means[row * columns + column] = sum / FINE ** 2;
    }
  }
  return means;
}

function massOf(means, columns) {
  let [all, x, y] = [0, 0, 0];
  means.forEach((value, i) => {
    all += value;
    x += value * ((i % columns) + 0.5);
    y += value * (Math.floor(i / columns) + 0.5);
  });
  return [x / all, y / all];
}

function spread(data, [rows, columns, channels]) {
  const pixels = new Uint8Array(rows * columns * channels);
  for (let channel = 0; channel < channels; channel++) {
    meansOf(data, rows, columns, Math.min(channel, 2)).forEach((value, i) => { pixels[i * channels + channel] = Math.round(value); });
  }
  return pixels;
}
