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

// ---- evaluate

// `look(name)` gives a number, or an array { shape, read(window) }, as a formula sees it (see `seen`); `parts` holds
// what layers at work inside gave, by their names; `shape` is that of the value on the left.
export function bind({ expr, text }, look, shape) {
  const bound = (node) => {
    const of = node.op === "call" && look(node.name) ? [] : node.of.map(bound);
    const made = OPERATORS[node.op](of, node, { look, shape });
    const self = { ...made, op: node.op, name: node.name, of, text: text.slice(node.from, node.to), window: null };
    self.read = (window) => { self.window = window; return made.read(window); };
    return self;
  };
  return bound(expr);
}

// The numbers of a window of the left side: a scalar, or an axis of one, is the same everywhere.
export function evaluate(node, window) {
  return spread(node, window).read(window);
}

export const cell = (index) => index.map((i) => [i, 1]);
const whole = (shape) => shape.map((count) => [0, count]);
const size = (counts) => counts.reduce((all, count) => all * count, 1);
const counts = (window) => window.map(([, count]) => count);

const OPERATORS = {
  number: (_, { value }) => constant(value),
  name: (_, { name }, { look }) => given(name, look),
  call: (of, { name }, context) => (context.look(name) ? given(name, context.look) : functionOf(name)(of, context)),
  negate: ([a]) => each([a], (x) => -x),
  "+": (of) => each(of, (a, b) => a + b),
  "-": (of) => each(of, (a, b) => a - b),
  "*": (of) => each(of, (a, b) => a * b),
  "/": (of) => each(of, (a, b) => a / b),
  "^": (of) => each(of, (a, b) => a ** b),
  "@": ([a, b]) => product(a, b),
  transpose: ([a]) => picked(a, swapped(a.shape), swapped),
  index: ([a, at]) => (at.op === "number" ? picked(a, a.shape.slice(1), (index) => [at.value, ...index]) : rows(a, at)),
};

const FUNCTIONS = {
  exp: ([a]) => each([a], Math.exp),
  log: ([a]) => each([a], Math.log),
  sqrt: ([a]) => each([a], Math.sqrt),
  tanh: ([a]) => each([a], Math.tanh),
  sigmoid: ([a]) => each([a], (x) => 1 / (1 + Math.exp(-x))),
  erf: ([a]) => each([a], erf),
  cos: ([a]) => each([a], Math.cos),
  sin: ([a]) => each([a], Math.sin),
  max: (of) => each(of, Math.max),
  masked: (of) => each(of, (a, m) => (m ? a : -Infinity)),
  softmax: ([a]) => alongRow(a, a.shape.at(-1), softmaxOf),
  sum: ([a]) => alongRow(a, 1, sumOf),
  mean: ([a]) => alongRow(a, 1, (row, out) => { sumOf(row, out); out[0] /= row.length; }),
  sum_tokens: ([a]) => overTokens(a, 1),
  mean_tokens: ([a]) => overTokens(a, 1 / size(a.shape.slice(0, -1))),
  join: ([a]) => picked(a, [a.shape[1], a.shape[0] * a.shape[2]], ([t, c]) => [Math.floor(c / a.shape[2]), t, c % a.shape[2]]),
  split: ([a], { shape: [H, T, D] }) => picked(a, [H, T, D], ([head, t, d]) => [t, head * D + d]),
  reshape: ([a], { shape }) => picked(a, shape, (index) => unflat(flat(index, shape), a.shape)),
  before: ([a]) => shifted(a, -1),
  later: ([a]) => shifted(a, 1),
  first: ([a]) => picked(a, [1, a.shape.at(-1)], ([, c]) => [0, c]),
  last: ([a, keep]) => picked(a, [1, a.shape.at(-1)], ([, c]) => [(keep ? lastOf(keep) : a.shape[0] - 1), c]),
  concat: ([a, b]) => concatenated(a, b),
};

function functionOf(name) {
  if (!FUNCTIONS[name]) throw new Error(`formula: no function is called ${name}; known are ${Object.keys(FUNCTIONS).join(", ")}`);
  return FUNCTIONS[name];
}

const constant = (value) => ({ shape: [], read: () => Float64Array.of(value) });

function given(name, look) {
  const value = look(name);
  if (value == null) throw new Error(`formula: nothing is called ${name}`);
  return typeof value === "number" ? constant(value) : value;
}

// Numbers in memory as formulas see them: a single row has two axes, heads and gates (a middle axis) come first.
export function seen(shape, headsInside, read) {
  const strides = shape.map((_, i) => size(shape.slice(i + 1)));
  const order = shape.length === 3 && headsInside ? [1, 0, 2] : shape.map((_, i) => i);
  const front = shape.length === 1 ? [0] : [];
  const axes = [...front.map(() => [1, 0]), ...order.map((axis) => [shape[axis], strides[axis]])];
  return {
    shape: axes.map(([count]) => count),
    at: (index) => index.reduce((place, i, axis) => place + i * axes[axis][1], 0),
    index: (place) => [...front, ...order.map((axis) => Math.floor(place / strides[axis]) % shape[axis])],
    read: (window) => copied(read(window), window, axes.map(([, stride]) => stride)),
  };
}

// A window of numbers, one after the other.
function copied(data, window, strides) {
  const out = new Float64Array(size(counts(window)));
  let to = 0;
  const along = (axis, from) => {
    if (axis === window.length) { out[to++] = data[from]; return; }
    const [first, count] = window[axis];
    const stride = strides[axis];
    if (axis === window.length - 1) for (let i = first; i < first + count; i++) out[to++] = data[from + i * stride];
    else for (let i = first; i < first + count; i++) along(axis + 1, from + i * stride);
  };
  along(0, 0);
  return out;
}

// Shapes are aligned at their last axes; one of size 1 is repeated.
function broadcast(shapes) {
  const rank = Math.max(...shapes.map((shape) => shape.length));
  return Array.from({ length: rank }, (_, axis) => {
    const along = new Set(shapes.map((shape) => shape[axis - rank + shape.length] ?? 1));
    along.delete(1);
    if (along.size > 1) throw new Error(`formula: shapes ${shapes.map((shape) => `(${shape})`).join(" and ")} do not fit`);
    return [...along][0] ?? 1;
  });
}

// The part of a window that an operand has.
const clipped = (window, shape) => (shape.length ? window.slice(-shape.length) : []).map((range, axis) => (shape[axis] === 1 ? [0, 1] : range));

// The same numbers under a window of more, or longer, axes.
function spread(node, window) {
  return { read: () => each([node, { shape: counts(window), read: () => new Float64Array(size(counts(window))) }], (a) => a).read(window) };
}

function each(of, f) {
  const shape = broadcast(of.map((one) => one.shape));
  function read(window) {
    const values = of.map((one) => one.read(clipped(window, one.shape)));
    const out = new Float64Array(size(counts(window)));
    if (values.length === 1) return out.map((_, i) => f(values[0][i]));
    const [a, b] = values;
    if (a.length === out.length && b.length === out.length) {
      for (let i = 0; i < out.length; i++) out[i] = f(a[i], b[i]);
      return out;
    }
    const [stepsA, stepsB] = of.map((one) => steps(window, one.shape));
    let to = 0;
    const along = (axis, i, j) => {
      if (axis === window.length) { out[to++] = f(a[i], b[j]); return; }
      for (let n = 0; n < window[axis][1]; n++) along(axis + 1, i + n * stepsA[axis], j + n * stepsB[axis]);
    };
    along(0, 0, 0);
    return out;
  }
  return { shape, read };
}

// Of an operand's numbers, how far it is to the next along each axis of the window; 0 where the same is repeated.
function steps(window, shape) {
  const own = counts(clipped(window, shape));
  const all = own.map((count, axis) => (shape[axis] === 1 ? 0 : size(own.slice(axis + 1))));
  return [...Array(window.length - shape.length).fill(0), ...all];
}

// a (…, M, K) with b (…, K, N); heads in front are repeated where only one side has them.
function product(a, b) {
  const [M, K, N] = [a.shape.at(-2), a.shape.at(-1), b.shape.at(-1)];
  if (K !== b.shape.at(-2)) throw new Error(`formula: (${a.shape}) @ (${b.shape}) do not fit`);
  const front = broadcast([a.shape.slice(0, -2), b.shape.slice(0, -2)]);
  function read(window) {
    const [outer, [rowRange, columnRange]] = [window.slice(0, -2), window.slice(-2)];
    const [m, n] = [rowRange[1], columnRange[1]];
    const left = a.read([...clipped(outer, a.shape.slice(0, -2)), rowRange, [0, K]]);
    const right = b.read([...clipped(outer, b.shape.slice(0, -2)), [0, K], columnRange]);
    const batches = size(counts(outer));
    const out = new Float64Array(batches * m * n);
    const [stepA, stepB] = [left.length > m * K ? m * K : 0, right.length > K * n ? K * n : 0];
    for (let batch = 0; batch < batches; batch++) {
      for (let i = 0; i < m; i++) {
        const to = (batch * m + i) * n;
        for (let k = 0; k < K; k++) {
          const x = left[batch * stepA + i * K + k];
          const from = batch * stepB + k * n;
          for (let j = 0; j < n; j++) out[to + j] += x * right[from + j];
        }
      }
    }
    return out;
  }
  return { shape: [...front, M, N], read };
}

// Each whole row gives a row of `width`, of which the window takes its part.
function alongRow(a, width, f) {
  const length = a.shape.at(-1);
  function read(window) {
    const [first, count] = window.at(-1);
    const values = a.read([...window.slice(0, -1), [0, length]]);
    const out = new Float64Array((values.length / length) * count);
    const row = new Float64Array(width);
    for (let i = 0; i < values.length / length; i++) {
      f(values.subarray(i * length, (i + 1) * length), row);
      out.set(row.subarray(first, first + count), i * count);
    }
    return out;
  }
  return { shape: [...a.shape.slice(0, -1), width], read };
}

function sumOf(row, out) {
  out[0] = 0;
  for (const value of row) out[0] += value;
}

// A row of which nothing may be seen gives zeros.
function softmaxOf(row, out) {
  let largest = -Infinity;
  for (const value of row) largest = Math.max(largest, value);
  let sum = 0;
  for (let i = 0; i < row.length; i++) sum += out[i] = largest === -Infinity ? 0 : Math.exp(row[i] - largest);
  if (sum) for (let i = 0; i < row.length; i++) out[i] /= sum;
}

// Added up over all axes but the last.
function overTokens(a, factor) {
  function read([, columns]) {
    const values = a.read([...whole(a.shape.slice(0, -1)), columns]);
    const out = new Float64Array(columns[1]);
    for (let i = 0; i < values.length; i++) out[i % columns[1]] += values[i] * factor;
    return out;
  }
  return { shape: [1, a.shape.at(-1)], read };
}

// An array whose cells are cells of another: `from(index)` says which, null for a zero.
function picked(a, shape, from) {
  function read(window) {
    const places = [];
    const walk = (axis, index) => {
      if (axis === window.length) places.push(from(index));
      else for (let i = window[axis][0]; i < window[axis][0] + window[axis][1]; i++) walk(axis + 1, [...index, i]);
    };
    walk(0, []);
    const known = places.filter(Boolean);
    if (!known.length) return new Float64Array(places.length);
    const box = a.shape.map((_, axis) => {
      let [low, high] = [Infinity, -Infinity];
      for (const place of known) { low = Math.min(low, place[axis]); high = Math.max(high, place[axis]); }
      return [low, high - low + 1];
    });
    const values = a.read(box);
    const lengths = counts(box);
    return Float64Array.from(places, (place) => (place ? values[flat(place.map((i, axis) => i - box[axis][0]), lengths)] : 0));
  }
  return { shape, read };
}

const swapped = (list) => [...list.slice(0, -2), list.at(-1), list.at(-2)];
const flat = (index, shape) => index.reduce((place, i, axis) => place * shape[axis] + i, 0);
const unflat = (place, shape) => shape.map((count, axis) => Math.floor(place / size(shape.slice(axis + 1))) % count);

// One time step earlier (-1) or later (1); zero where there is none.
function shifted(a, by) {
  const axis = a.shape.length - 2;
  return picked(a, a.shape, (index) => {
    const time = index[axis] + by;
    return time < 0 || time >= a.shape[axis] ? null : index.with(axis, time);
  });
}

const lastOf = (keep) => keep.read(whole(keep.shape)).lastIndexOf(1);

// Rows of a table, by their numbers.
function rows(table, ids) {
  const many = ids.shape.at(-1);
  return picked(table, [many, table.shape.at(-1)], ([t, c]) => [ids.read([[0, 1], [t, 1]])[0], c]);
}

function concatenated(a, b) {
  const [many, width] = [a.shape.at(-2), a.shape.at(-1)];
  const below = b.shape.at(-1) === width;
  return { shape: [many, width, below], read: null };
}

// 2 / sqrt(pi) exp(-x^2) (x + 2 x^3 / 3 + 4 x^5 / 15 + …): no term is negative, so nothing cancels out.
function erf(x) {
  if (Math.abs(x) > 6) return Math.sign(x);
  let [sum, term] = [0, x];
  for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum) + 1e-300; n++) {
    sum += term;
    term *= (2 * x * x) / (2 * n + 1);
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}
