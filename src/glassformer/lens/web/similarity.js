// How alike the rows of a tensor are, each with each: the cosine between them.
//
// similarity(s, t) = x[s] · x[t] / (|x[s]| |x[t]|)
import { matrix } from "./data.js";

const MOST = 256; // rows compared with each other; of more, every second, fourth, …

// The similarity as a tensor of its own, whose cells can be pointed at.
export function similarityOf(tensor, count, name = "pos") {
  const { data, rows, columns, step } = similarity(tensor, count);
  return { name: `similarity of ${name === "pos" ? "positions" : name}`, kind: "value", shape: [rows, columns], axes: ["T", "T"], data, step, equation: `${name}[s] · ${name}[t] / (|${name}[s]| |${name}[t]|)` };
}

export function likenessView(likeness) {
  const axis = likeness.step === 1 ? "T" : "";
  return { ...matrix(likeness), rowAxis: axis, columnAxis: axis };
}

function similarity(tensor, count) {
  const [M, C] = tensor.shape;
  const all = Math.min(M, count || M);
  const step = Math.ceil(all / MOST);
  const places = Array.from({ length: Math.ceil(all / step) }, (_, i) => i * step);
  const n = places.length;
  const rows = places.map((place) => {
    const row = tensor.data.subarray(place * C, (place + 1) * C);
    let square = 0;
    for (const value of row) square += value * value;
    return { row, size: Math.sqrt(square) || 1 };
  });
  const data = new Float32Array(n * n);
  for (let i = 0; i < n; i++) {
    for (let j = i; j < n; j++) {
      let sum = 0;
      for (let c = 0; c < C; c++) sum += rows[i].row[c] * rows[j].row[c];
      data[i * n + j] = data[j * n + i] = sum / (rows[i].size * rows[j].size);
    }
  }
  return { data, rows: n, columns: n, step };
}
