// Formulas, `scores = q @ k^T * scale`: parsed and evaluated. The string that is shown is the string evaluated.
//
// formula  := name '=' expr
// expr     := term (('+' | '-') term)*
// term     := factor (('*' | '/' | '@') factor)*
// factor   := '-' factor | base ('^' (number | '(' expr ')' | 'T'))?
// base     := number | name | name '(' expr (',' expr)* ')' | base '[' expr ']' | '(' expr ')'
//
// An expression is evaluated for a window only, [first, count] along each axis: one cell, or one head. A product asks
// its factors for the rows and columns it needs, a softmax for its row; every node remembers the window it was asked for.

const TOKEN = /\s*(?:(\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+)|([A-Za-z_]\w*(?:\.\w+)*)|(\S))/y;

// ---- parse

const parsed = new Map();

// { name, expr } of `name = expr`. A node is { op, of, from, to }: its operands, and where it stands in the text.
export function parse(text) {
  if (!parsed.has(text)) parsed.set(text, parseAnew(text));
  return parsed.get(text);
}

function parseAnew(text) {
  const tokens = [];
  TOKEN.lastIndex = 0;
  for (let found = TOKEN.exec(text); found; found = TOKEN.exec(text)) {
    const [all, number, name, sign] = found;
    const to = TOKEN.lastIndex;
    tokens.push({ kind: number ? "number" : name ? "name" : sign, word: number ?? name ?? sign, from: to - all.trimStart().length, to });
  }
  tokens.push({ kind: "end", word: "the end", from: text.length, to: text.length });
  let i = 0;
  const is = (...kinds) => kinds.includes(tokens[i].kind);
  const take = (kind) => {
    if (!is(kind)) throw new Error(`formula “${text}”: ${tokens[i].word} came at ${tokens[i].from}, expected ${kind}`);
    return tokens[i++];
  };
  const node = (op, from, of = [], more = {}) => ({ op, of, from, to: tokens[i - 1].to, ...more });

  function chain(next, ...signs) {
    const { from } = tokens[i];
    let left = next();
    while (is(...signs)) {
      const op = tokens[i++].kind;
      left = node(op, from, [left, next()]);
    }
    return left;
  }
  const expr = () => chain(term, "+", "-");
  const term = () => chain(factor, "*", "/", "@");

  function factor() {
    const { from } = tokens[i];
    if (is("-")) { i++; return node("negate", from, [factor()]); }
    const of = base();
    if (!is("^")) return of;
    i++;
    if (is("name") && tokens[i].word === "T") { i++; return node("transpose", from, [of]); }
    return node("^", from, [of, is("(") ? inside() : literal()]);
  }

  function base() {
    const { from } = tokens[i];
    let one = is("(") ? inside() : is("number") ? literal() : named();
    while (is("[")) {
      i++;
      const at = expr();
      take("]");
      one = node("index", from, [one, at]);
    }
    return one;
  }

  function inside() {
    const { from } = take("(");
    const one = expr();
    take(")");
    return { ...one, from, to: tokens[i - 1].to };
  }

  function literal() {
    const { word, from } = take("number");
    return node("number", from, [], { value: Number(word) });
  }

  function named() {
    const { word, from } = take("name");
    if (!is("(")) return node("name", from, [], { name: word });
    const given = [];
    do { i++; given.push(expr()); } while (is(","));
    take(")");
    return node("call", from, given, { name: word });
  }

  const { word: name } = take("name");
  take("=");
  const found = expr();
  take("end");
  return { name, expr: found, text };
}

// ---- evaluate, with the axes of NumPy; functions as in glassformer/formulas.py

// `look(name)` gives a number, or an array { shape, read(window) } (see `seen`): a value, or what a layer at work inside
// gave; `shape` is that of the left side. A bound node has `of`, its operands, and after reading `window`.
export function bind({ expr, text }, look, shape) {
  const bound = (node) => {
    const isPart = node.op === "call" && look(node.name) != null;
    const of = isPart ? [] : node.of.map(bound);
    const made = isPart ? given(node.name, look) : OPERATORS[node.op](of, node, { look, shape });
    const self = { ...made, op: node.op, name: node.name, of, text: text.slice(node.from, node.to), window: null };
    self.read = (window) => { self.window = window; return made.read(window); };
    return self;
  };
  return bound(expr);
}

// The numbers of a window of the left side; along an axis of one, or none, they are the same everywhere.
export function evaluate(node, window) {
  const missing = Math.max(node.shape.length - window.length, 0);
  return node.read(clipped([...Array(missing).fill([0, 1]), ...window], node.shape));
}

// Numbers in memory as formulas see them: heads or gates, which in memory stand before the last axis, come first.
export function seen(shape, isGrouped, read) {
  const own = shape.map((count, axis) => ({ count, stride: size(shape.slice(axis + 1)) }));
  const one = { count: 1, stride: 0 };
  const axes = !isGrouped || shape.length < 2 ? own : shape.length === 2 ? [own[0], one, own[1]] : [own[1], own[0], own[2]];
  return {
    shape: axes.map(({ count }) => count),
    index: (place) => axes.map(({ count, stride }) => (stride ? Math.floor(place / stride) % count : 0)),
    read: (window) => copied(read(window), window, axes.map(({ stride }) => stride)),
  };
}

export const cell = (index) => index.map((i) => [i, 1]);
const whole = (shape) => shape.map((count) => [0, count]);
const size = (counts) => counts.reduce((all, count) => all * count, 1);
const counts = (window) => window.map(([, count]) => count);
const constant = (value) => ({ shape: [], read: () => Float64Array.of(value) });
const numberIn = (node) => node.read([])[0];

const OPERATORS = {
  number: (_, { value }) => constant(value),
  name: (_, { name }, { look }) => given(name, look),
  call: (of, { name }, { shape }) => functionOf(name)(...of, shape),
  negate: ([a]) => each([a], (x) => -x),
  "+": (of) => each(of, (a, b) => a + b),
  "-": (of) => each(of, (a, b) => a - b),
  "*": (of) => each(of, (a, b) => a * b),
  "/": (of) => each(of, (a, b) => a / b),
  "^": (of) => each(of, (a, b) => a ** b),
  "@": ([a, b]) => product(rows(a), rows(b)),
  transpose: ([a]) => picked(rows(a), swapped(rows(a).shape), swapped),
  index: ([a, at]) => picked(a, [...at.shape, ...a.shape.slice(1)], (index) => [at.read(cell(index.slice(0, at.shape.length)))[0], ...index.slice(at.shape.length)]),
};

const FUNCTIONS = {
  exp: (a) => each([a], Math.exp),
  log: (a) => each([a], Math.log),
  sqrt: (a) => each([a], Math.sqrt),
  tanh: (a) => each([a], Math.tanh),
  sigmoid: (a) => each([a], (x) => 1 / (1 + Math.exp(-x))),
  erf: (a) => each([a], erf),
  cos: (a) => each([a], Math.cos),
  sin: (a) => each([a], Math.sin),
  step: (a) => each([a], (x) => (x > 0 ? 1 : 0)),
  max: (a, b) => each([a, b], Math.max),
  min: (a, b) => each([a, b], Math.min),
  // along the last axis, which stays with size 1
  softmax,
  sum: (a) => summed(a, [a.shape.length - 1]),
  mean: (a) => summed(a, [a.shape.length - 1], 1 / a.shape.at(-1)),
  pick,
  // along the tokens, the axis before the last, which stays with size 1
  sum_tokens: (a) => summed(rows(a), [rows(a).shape.length - 2]),
  mean_tokens: (a) => summed(rows(a), [rows(a).shape.length - 2], 1 / rows(a).shape.at(-2)),
  before: (a) => shifted(a, -1),
  later: (a) => shifted(a, 1),
  first: (a) => picked(a, a.shape.slice(1), (index) => [0, ...index]),
  rest: (a) => picked(a, a.shape.with(0, a.shape[0] - 1), ([t, ...index]) => [t + 1, ...index]),
  rows: (a, count) => picked(a, a.shape.with(0, numberIn(count)), (index) => index),
  fill: (a, count) => picked(rows(a), rows(a).shape.with(0, numberIn(count)), (index) => (index[0] < rows(a).shape[0] ? index : null)),
  concat: (a, b) => below(rows(a), rows(b)),
  // what may be seen
  masked: (a, m) => each([a, m], (x, may) => (may ? x : -Infinity)),
  // heads and gates, the first axis
  split: (a, heads) => splitHeads(a, numberIn(heads), a.shape[1] / numberIn(heads)),
  join: (a) => picked(a, [a.shape[1], a.shape[0] * a.shape[2]], ([t, c]) => [Math.floor(c / a.shape[2]), t, c % a.shape[2]]),
  repeat: (a, heads) => picked(a, a.shape.with(0, numberIn(heads)), ([head, ...index]) => [Math.floor((head * a.shape[0]) / numberIn(heads)), ...index]),
  group_sum: (a, heads) => groupSum(a, numberIn(heads), a.shape[0] / numberIn(heads)),
  sum_heads: (a) => picked(summed(a, [0]), a.shape.slice(1), (index) => [0, ...index]),
  stack: (...of) => stacked(of.slice(0, -1)),
  // the rest
  sum_to: (a, b) => summed(a, [...b.shape.keys()].filter((axis) => b.shape[axis] === 1)),
  column: (a) => ({ shape: [...a.shape, 1], read: (window) => a.read(window.slice(0, -1)) }),
  onehot,
  reshape: (a, shape) => picked(a, shape, (index) => unflat(flat(index, shape), a.shape)),
  by_bucket: (table, bucket) => picked(table, [table.shape[1], ...bucket.shape], ([head, ...pair]) => [bucket.read(cell(pair))[0], head]),
  bucket_sum: bucketSum,
  patches: (a, side) => patches(a, numberIn(side)),
  unpatches: (a, side, width) => unpatches(a, numberIn(side), numberIn(width)),
  angle,
  turn: (a) => turned(a, a.shape.at(-1) / 2),
};
const CONSTANTS = { pi: Math.PI };

function functionOf(name) {
  if (!Object.hasOwn(FUNCTIONS, name)) throw new Error(`formula: no function is called ${name}; known are ${Object.keys(FUNCTIONS).join(", ")}`);
  return FUNCTIONS[name];
}

function given(name, look) {
  const value = look(name) ?? (Object.hasOwn(CONSTANTS, name) ? CONSTANTS[name] : null);
  if (value === null) throw new Error(`formula: nothing is called ${name}`);
  return typeof value === "number" ? constant(value) : value;
}

// ---- windows

// Visit a window in order: `visit(i, j, …)`, one place for each list of steps, how far it is to the next along each axis.
function along(lengths, allSteps, visit) {
  const last = lengths.length - 1;
  const [stepsA, stepsB = stepsA] = allSteps;
  const go = (axis, i, j) => {
    if (axis > last) { visit(i, j); return; }
    const [a, b] = [stepsA[axis], stepsB[axis]];
    if (axis === last) for (let n = 0; n < lengths[axis]; n++) visit(i + n * a, j + n * b);
    else for (let n = 0; n < lengths[axis]; n++) go(axis + 1, i + n * a, j + n * b);
  };
  go(0, 0, 0);
}

const stepsOf = (lengths) => lengths.map((_, axis) => size(lengths.slice(axis + 1)));

function copied(data, window, strides) {
  const out = new Float64Array(size(counts(window)));
  const start = window.reduce((from, [first], axis) => from + first * strides[axis], 0);
  let to = 0;
  along(counts(window), [strides], (from) => { out[to++] = data[start + from]; });
  return out;
}

// Shapes are aligned at their last axes; one of size 1 is repeated.
function broadcast(shapes) {
  const rank = Math.max(...shapes.map((shape) => shape.length));
  return Array.from({ length: rank }, (_, axis) => {
    const lengths = new Set(shapes.map((shape) => shape[axis - rank + shape.length] ?? 1));
    lengths.delete(1);
    if (lengths.size > 1) throw new Error(`formula: shapes ${shapes.map((shape) => `(${shape})`).join(" and ")} do not fit`);
    return [...lengths][0] ?? 1;
  });
}

// The part of a window that an operand has.
const clipped = (window, shape) => (shape.length ? window.slice(-shape.length) : []).map((range, axis) => (shape[axis] === 1 ? [0, 1] : range));

// Of an operand's numbers, how far it is to the next along each axis of the window; 0 where the same is repeated.
function repeats(window, shape) {
  const own = stepsOf(counts(clipped(window, shape))).map((step, axis) => (shape[axis] === 1 ? 0 : step));
  return [...Array(window.length - shape.length).fill(0), ...own];
}

function each(of, f) {
  const shape = broadcast(of.map((one) => one.shape));
  function read(window) {
    const [a, b] = of.map((one) => one.read(clipped(window, one.shape)));
    if (!b) return a.map((x) => f(x));
    const out = new Float64Array(size(counts(window)));
    let to = 0;
    if (a.length === out.length && b.length === out.length) for (; to < out.length; to++) out[to] = f(a[to], b[to]);
    else if (a.length === out.length && b.length === 1) for (; to < out.length; to++) out[to] = f(a[to], b[0]);
    else along(counts(window), of.map((one) => repeats(window, one.shape)), (i, j) => { out[to++] = f(a[i], b[j]); });
    return out;
  }
  return { shape, read };
}

// a (…, M, K) with b (…, K, N); heads in front are repeated where only one side has them.
function product(a, b) {
  const [M, K, N] = [a.shape.at(-2), a.shape.at(-1), b.shape.at(-1)];
  if (K !== b.shape.at(-2)) throw new Error(`formula: (${a.shape}) @ (${b.shape}) do not fit`);
  const [frontA, frontB] = [a.shape.slice(0, -2), b.shape.slice(0, -2)];
  function read(window) {
    const outer = window.slice(0, -2);
    const [[, m], [, n]] = window.slice(-2);
    const left = a.read([...clipped(outer, frontA), window.at(-2), [0, K]]);
    const right = b.read([...clipped(outer, frontB), [0, K], window.at(-1)]);
    const out = new Float64Array(size(counts(outer)) * m * n);
    let to = 0;
    along(counts(outer), [repeats(outer, frontA), repeats(outer, frontB)], (headA, headB) => {
      for (let i = 0; i < m; i++, to += n) {
        for (let k = 0; k < K; k++) {
          const x = left[(headA * m + i) * K + k];
          const from = (headB * K + k) * n;
          for (let j = 0; j < n; j++) out[to + j] += x * right[from + j];
        }
      }
    });
    return out;
  }
  return { shape: [...broadcast([frontA, frontB]), M, N], read };
}

// Added up along some axes, which stay with size 1.
function summed(a, axes, factor = 1) {
  function read(window) {
    const asked = window.map((range, axis) => (axes.includes(axis) ? [0, a.shape[axis]] : range));
    const values = a.read(asked);
    const out = new Float64Array(size(counts(window)));
    const to = stepsOf(counts(window)).map((step, axis) => (axes.includes(axis) ? 0 : step));
    along(counts(asked), [stepsOf(counts(asked)), to], (i, j) => { out[j] += values[i] * factor; });
    return out;
  }
  return { shape: a.shape.map((count, axis) => (axes.includes(axis) ? 1 : count)), read };
}

// Of each row; one of which nothing may be seen gives zeros.
function softmax(a) {
  const length = a.shape.at(-1);
  function read(window) {
    const [start, count] = window.at(-1);
    const values = a.read(window.with(-1, [0, length]));
    const out = new Float64Array((values.length / length) * count);
    for (let row = 0; row * length < values.length; row++) {
      const own = values.subarray(row * length, (row + 1) * length);
      let largest = -Infinity;
      for (const value of own) if (value > largest) largest = value;
      let sum = 0;
      for (const value of own) sum += Math.exp(value - largest);
      if (largest > -Infinity) for (let i = 0; i < count; i++) out[row * count + i] = Math.exp(own[start + i] - largest) / sum;
    }
    return out;
  }
  return { shape: a.shape, read };
}

// The entry i of each row.
function pick(a, i) {
  function read(window) {
    const [front, length] = [window.slice(0, -1), a.shape.at(-1)];
    const [at, values] = [i.read(front), a.read([...front, [0, length]])];
    return at.map((one, row) => values[row * length + one]);
  }
  return { shape: a.shape.with(-1, 1), read };
}

function onehot(i, many) {
  function read(window) {
    const [start, count] = window.at(-1);
    const at = i.read(window.slice(0, -1));
    return Float64Array.from({ length: at.length * count }, (_, n) => (at[Math.floor(n / count)] === start + (n % count) ? 1 : 0));
  }
  return { shape: [...i.shape, numberIn(many)], read };
}

function stacked(of) {
  const read = ([[start, count], ...rest]) => Float64Array.from(of.slice(start, start + count).flatMap((one) => [...one.read(rest)]));
  return { shape: [of.length, ...of[0].shape], read };
}

// (H, T, S) gathered by bucket: (R, H).
function bucketSum(a, bucket, many) {
  function read([[start, count], heads]) {
    const [values, buckets] = [a.read([heads, ...whole(bucket.shape)]), bucket.read(whole(bucket.shape))];
    const out = new Float64Array(count * heads[1]);
    values.forEach((x, i) => {
      const row = buckets[i % buckets.length] - start;
      if (row >= 0 && row < count) out[row * heads[1] + Math.floor(i / buckets.length)] += x;
    });
    return out;
  }
  return { shape: [numberIn(many), a.shape[0]], read };
}

// How far a pair of dimensions turns at each place.
function angle(place, base, width) {
  const all = numberIn(width);
  const places = { shape: [...place.shape, 1], read: (window) => place.read(window.slice(0, -1)) };
  const speeds = Float64Array.from({ length: all }, (_, i) => numberIn(base) ** ((2 * (i % (all / 2))) / all));
  return each([places, { shape: [all], read: ([[start, count]]) => speeds.slice(start, start + count) }], (a, b) => a / b);
}

// ---- cells of another place

// An array whose cells are cells of another: `from(index)` says which, null for a zero.
function picked(a, shape, from) {
  function read(window) {
    const places = [];
    const walk = (index) => {
      if (index.length === window.length) { places.push(from(index)); return; }
      const [start, count] = window[index.length];
      for (let i = start; i < start + count; i++) walk([...index, i]);
    };
    walk([]);
    const known = places.filter(Boolean);
    if (!known.length) return new Float64Array(places.length);
    const box = a.shape.map((_, axis) => {
      let [low, high] = [Infinity, -Infinity];
      for (const place of known) { low = Math.min(low, place[axis]); high = Math.max(high, place[axis]); }
      return [low, high - low + 1];
    });
    const values = a.read(box);
    const steps = stepsOf(counts(box));
    return Float64Array.from(places, (place) => (place ? values[place.reduce((at, i, axis) => at + (i - box[axis][0]) * steps[axis], 0)] : 0));
  }
  return { shape, read };
}

const swapped = (list) => [...list.slice(0, -2), list.at(-1), list.at(-2)];
const flat = (index, shape) => index.reduce((place, i, axis) => place * shape[axis] + i, 0);
const unflat = (place, shape) => shape.map((count, axis) => Math.floor(place / size(shape.slice(axis + 1))) % count);

// A single row has two axes.
function rows(a) {
  const missing = 2 - a.shape.length;
  return missing > 0 ? { shape: [...Array(missing).fill(1), ...a.shape], read: (window) => a.read(window.slice(missing)) } : a;
}

// One time step earlier (-1) or later (1); zero where there is none.
function shifted(a, by) {
  const axis = a.shape.length - 2;
  return picked(a, a.shape, (index) => {
    const time = index[axis] + by;
    return time < 0 || time >= a.shape[axis] ? null : index.with(axis, time);
  });
}

function below(a, b) {
  const many = a.shape[0];
  const shape = [many + b.shape[0], ...b.shape.slice(1)];
  const upper = picked(a, shape, (index) => (index[0] < many ? index : null));
  const lower = picked(b, shape, ([t, ...index]) => (t < many ? null : [t - many, ...index]));
  return each([upper, lower], (x, y) => x + y);
}

const splitHeads = (a, heads, width) => picked(a, [heads, a.shape[0], width], ([head, t, d]) => [t, head * width + d]);

// Each `many` heads that follow each other, added up.
function groupSum(a, heads, many) {
  const nth = (n) => picked(a, a.shape.with(0, heads), ([head, ...index]) => [head * many + n, ...index]);
  return Array.from({ length: many }, (_, n) => nth(n)).reduce((sum, one) => each([sum, one], (x, y) => x + y));
}

// An image (Y, X, G) in square patches, row by row; in a patch the rows, then the columns, then the channels.
function patches(a, side) {
  const [Y, X, G] = a.shape;
  const [across, inRow] = [X / side, side * G];
  return picked(a, [(Y * X) / side ** 2, side * inRow], ([t, p]) =>
    [Math.floor(t / across) * side + Math.floor(p / inRow), (t % across) * side + Math.floor((p % inRow) / G), p % G]);
}

function unpatches(a, side, width) {
  const G = a.shape[1] / side ** 2;
  return picked(a, [(a.shape[0] * side ** 2) / width, width, G], ([y, x, g]) =>
    [Math.floor(y / side) * (width / side) + Math.floor(x / side), ((y % side) * side + (x % side)) * G + g]);
}

// The second half of the last axis, negative, before the first.
function turned(a, half) {
  const swap = picked(a, a.shape, (index) => index.with(-1, (index.at(-1) + half) % (2 * half)));
  const signs = { shape: [2 * half], read: ([[start, count]]) => Float64Array.from({ length: count }, (_, i) => (start + i < half ? -1 : 1)) };
  return each([swap, signs], (x, sign) => x * sign);
}

// 2 / sqrt(pi) exp(-x^2) (x + 2 x^3 / 3 + 4 x^5 / 15 + …): no term is negative, so nothing cancels out.
function erf(x) {
  if (Math.abs(x) > 6) return Math.sign(x);
  let [sum, term] = [0, x];
  for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); n++) {
    sum += term;
    term *= (2 * x * x) / (2 * n + 1);
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}
