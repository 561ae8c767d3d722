"""The page's formulas (web/formula.js), run by Node: every construct of the grammar gives what NumPy gives."""

import json
import math
import shutil
import subprocess
from typing import Any

import numpy as np
import pytest

from glassformer import formulas
from glassformer.lens.page import web

pytestmark = pytest.mark.skipif(
    shutil.which("node") is None, reason="node is not installed (Debian: apt-get install nodejs)"
)

RUN = """
const read = async () => { let all = ""; for await (const some of process.stdin) all += some; return all; };
const cases = JSON.parse(await read());
const asArray = ({ shape, grouped, data }) => ({ ...seen(shape, grouped, () => data), tensor: true });
const answers = cases.map(({ equation, given, left }) => {
  try {
    const known = new Map(
      Object.entries(given).map(([name, one]) => [name, typeof one === "number" ? one : asArray(one)]));
    const { shape, index } = seen(left.shape, left.grouped);
    const formula = parse(equation);
    const node = bind(formula, (name) => known.get(name), shape);
    const all = left.shape.reduce((a, b) => a * b, 1);
    const cells = Array.from({ length: all }, (_, at) => evaluate(node, cell(index(at)))[0]);
    const whole = [...evaluate(node, shape.map((count) => [0, count]))];
    return { name: formula.name, cells, whole, shape: node.shape };
  } catch (error) { return { error: error.message }; }
});
const plain = (_, x) => (Number.isFinite(x) || typeof x !== "number" ? x : x > 0 ? "inf" : x < 0 ? "-inf" : "nan");
console.log(JSON.stringify(answers, plain));
"""


def run_node(script: str, given: str = "") -> str:
    """What a script behind formula.js prints."""
    command = ["node", "--input-type=module", "-e", f"{web('formula.js')}\n{script}"]
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def node(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return json.loads(run_node(RUN, json.dumps(cases)))


RNG = np.random.default_rng(0)
H, J, T, S, D, C, N = 4, 2, 5, 3, 6, 7, 11  # no two alike: axes cannot be mixed up


def draw(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


def array(value: Any, grouped: bool = False) -> Any:
    if np.ndim(value) == 0 and not isinstance(value, np.ndarray):
        return float(value)
    plain = np.asarray(value, np.float64)
    return {"shape": list(plain.shape), "grouped": grouped, "data": plain.ravel().tolist()}


def softmax(scores: np.ndarray) -> np.ndarray:
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True)


x, y, w, b = draw(T, C), draw(T, C), draw(C, N), draw(N)
q, k, v = draw(T, H, D), draw(S, H, D), draw(S, H, D)  # as they are stored
scores = np.einsum("thd,shd->hts", q, k)
mask = np.array([[1, 0, 1], [1, 1, 1], [0, 0, 0], [0, 1, 0], [1, 1, 0]], bool)  # (T, S); token 2 sees nothing
seen_scores = np.where(mask, scores, -1e30)
pattern = softmax(seen_scores) * mask.any(axis=-1, keepdims=True)
gates, w_gates, b_gates = draw(T, 4, N), draw(C, 4, N), draw(4, N)
image = draw(4, 6, 2)  # 2 x 3 patches of 2 x 2 pixels, 2 channels
cut = image.reshape(2, 2, 3, 2, 2).transpose(0, 2, 1, 3, 4).reshape(6, 8)
ids = np.array([2, 0, 4, 4])
row = draw(C)
shared, table, bucket = draw(S, J, D), draw(8, H), RNG.integers(0, 8, (T, S))
square = draw(H, T, T)
angles = np.arange(T)[:, None] / 100.0 ** (2 * np.array([0, 1, 2, 0, 1, 2]) / D)

# equation, what its names are, the value; names in `GROUPED` are stored with heads or gates in the middle
GROUPED = {"q", "k", "v", "z", "gates", "w_gates", "b_gates", "k_shared"}


def by_gate(x: np.ndarray) -> np.ndarray:
    return np.einsum("tc,cgn->tgn", x, w_gates)


CASES: list[tuple[str, dict[str, Any], np.ndarray]] = [
    ("y = x + 2", {"x": x}, x + 2),
    ("y = x - y - 1.5e-1", {"x": x, "y": y}, x - y - 0.15),
    ("y = x - (y - x)", {"x": x, "y": y}, 2 * x - y),
    ("y = x / y * x", {"x": x, "y": y}, x / y * x),
    ("y = x * y @ w", {"x": x, "y": y, "w": w}, (x * y) @ w),
    ("y = -x^2", {"x": x}, -(x**2)),
    ("y = x * -y", {"x": x, "y": y}, x * -y),
    ("y = 2^(x + 1)", {"x": x}, 2 ** (x + 1)),
    ("y = x @ w + b", {"x": x, "w": w, "b": b}, x @ w + b),
    ("y = x @ w + b", {"x": row, "w": w, "b": b}, row @ w + b),  # a single row
    ("dw = x^T @ dy", {"x": x, "dy": (dy := draw(T, N))}, x.T @ dy),
    ("dw = x^T @ dy", {"x": row, "dy": b}, np.outer(row, b)),
    ("scores = q @ k^T * scale", {"q": q, "k": k, "scale": 0.5}, scores * 0.5),
    ("pattern = softmax(masked(scores, mask))", {"scores": scores, "mask": mask}, pattern),
    ("pattern = softmax(scores)", {"scores": scores}, softmax(scores)),
    ("z = pattern @ v", {"pattern": pattern, "v": v}, np.einsum("hts,shd->thd", pattern, v)),
    ("joined = join(z)", {"z": q}, q.reshape(T, H * D)),
    ("q = split(x @ w_q, H)", {"x": x, "H": H, "w_q": (w_q := draw(C, H * D))}, (x @ w_q).reshape(T, H, D)),
    (
        "dscores = p * (dp - sum(dp * p))",
        {"p": pattern, "dp": scores},
        pattern * (scores - (scores * pattern).sum(-1, keepdims=True)),
    ),
    ("gates = x @ w_gates + b_gates", {"x": x, "w_gates": w_gates, "b_gates": b_gates}, by_gate(x) + b_gates),
    ("i = sigmoid(gates[1])", {"gates": gates}, 1 / (1 + np.exp(-gates[:, 1]))),
    ("y = emb[ids]", {"emb": x, "ids": ids}, x[ids]),
    ("y = x * 1 / sqrt(mean(x^2) + eps)", {"x": x, "eps": 0.1}, x / np.sqrt((x**2).mean(-1, keepdims=True) + 0.1)),
    ("db = sum_tokens(x)", {"x": x}, x.sum(axis=0)),
    ("y = mean_tokens(x)", {"x": x}, x.mean(axis=0)),
    ("y = exp(x) + log(x^2) + sqrt(x^2)", {"x": x}, np.exp(x) + np.log(x**2) + np.abs(x)),
    ("y = tanh(x) + cos(x) * sin(x)", {"x": x}, np.tanh(x) + np.cos(x) * np.sin(x)),
    ("y = x * (1 + erf(x / sqrt(2))) / 2", {"x": 4 * x}, 2 * x * (1 + np.vectorize(math.erf)(4 * x / math.sqrt(2)))),
    ("y = max(x, 0)", {"x": x}, np.maximum(x, 0)),
    ("y = before(x) + 10 * later(x)", {"x": x}, np.vstack([0 * x[:1], x[:-1]]) + 10 * np.vstack([x[1:], 0 * x[:1]])),
    ("gates = before(h) @ w_gates", {"h": x, "w_gates": w_gates}, by_gate(np.vstack([0 * x[:1], x[:-1]]))),
    ("y = first(x)", {"x": x}, x[0]),
    ("y = rest(x)", {"x": x}, x[1:]),
    ("y = rows(x, S)", {"x": x, "S": S}, x[:S]),
    ("y = fill(x, 8)", {"x": x}, np.vstack([x, np.zeros((3, C))])),
    ("y = fill(x, T)", {"x": row, "T": T}, np.vstack([row, np.zeros((T - 1, C))])),
    ("y = concat(token, x)", {"token": row, "x": x}, np.vstack([row, x])),
    ("y = pick(x, ids)", {"x": x, "ids": np.array([6, 0, 2, 2, 1])}, x[range(T), [6, 0, 2, 2, 1]][:, None]),
    ("y = pick(x, label)", {"x": row, "label": np.array(3)}, row[[3]]),
    ("y = onehot(ids, 6)", {"ids": ids}, np.eye(6)[ids]),
    ("y = onehot(label, 6)", {"label": np.array(2)}, np.eye(6)[2]),
    ("y = column(b) * x", {"b": (places := np.arange(T)), "x": x}, places[:, None] * x),
    ("y = step(x) + min(x, 0)", {"x": x}, (x > 0) + np.minimum(x, 0)),
    ("y = sqrt(2 / pi) * x", {"x": x}, np.sqrt(2 / np.pi) * x),
    ("k = repeat(k_shared, H)", {"k_shared": shared, "H": H}, np.repeat(shared, H // J, axis=1)),
    ("k_shared = group_sum(k, J)", {"k": k, "J": J}, k.reshape(S, J, H // J, D).sum(axis=2)),
    ("y = sum_heads(scores)", {"scores": scores}, scores.sum(axis=0)),
    ("y = stack(x, y, 2 * x)", {"x": x, "y": y}, np.stack([x, y, 2 * x])),
    ("y = sum_to(scores, bias)", {"scores": scores, "bias": np.zeros((1, T, 1))}, scores.sum((0, 2), keepdims=True)),
    ("bias = by_bucket(table, bucket)", {"table": table, "bucket": bucket}, np.moveaxis(table[bucket], -1, 0)),
    (
        "dtable = bucket_sum(scores, bucket, 8)",
        {"scores": scores, "bucket": bucket},
        np.einsum("hts,tsr->rh", scores, np.eye(8)[bucket]),
    ),
    ("y = angle(place, base, D)", {"place": places, "base": 100.0, "D": D}, angles),
    ("y = turn(x)", {"x": square[0, :, :4]}, np.hstack([-square[0, :, 2:4], square[0, :, :2]])),
    ("y = patches(x, 2)", {"x": image}, cut),
    ("dx = unpatches(dy, 2, 6)", {"dy": cut}, image),
    ("y = reshape(x)", {"x": image}, image.ravel()),
    ("dx = reshape(dy)", {"dy": image.ravel()}, image),
    ("dx = attn.backward(dy) + dy", {"attn.backward": y, "dy": x}, x + y),
    ("resid = x + attn(norm1(x))", {"x": x, "attn": y, "norm1": 0.0}, x + y),
    ("loss = -sum(x)", {"x": row}, np.array(-row.sum())),
]


def test_every_construct_gives_what_numpy_gives() -> None:
    """Cell by cell, and all cells at once."""
    answers = node(
        [
            {
                "equation": equation,
                "given": {name: array(one, name in GROUPED) for name, one in given.items()},
                "left": {"shape": list(value.shape), "grouped": equation.split()[0] in GROUPED},
            }
            for equation, given, value in CASES
        ]
    )
    for (equation, _, value), answer in zip(CASES, answers, strict=True):
        assert "error" not in answer, f"{equation}: {answer}"
        name = equation.split()[0]
        assert answer["name"] == name
        for found, value_ in (("cells", value), ("whole", np.swapaxes(value, 0, 1) if name in GROUPED else value)):
            close = np.isclose(np.array(answer[found], float), value_.ravel(), rtol=1e-11, atol=1e-12)
            assert close.all(), f"{equation}, {found}: {np.flatnonzero(~close)[:5]}"


def test_the_page_has_the_functions_of_python() -> None:
    """Each of them, and every operator, is in one of the cases above."""
    stated = [formulas.parse(equation).expr for equation, _, _ in CASES]
    used = {name for expr in stated for name in expr.calls()} & set(formulas.FUNCTIONS)
    assert used == set(formulas.FUNCTIONS)
    assert {one.kind for expr in stated for one in expr.walk()} >= set(formulas.OPERATIONS)
    assert json.loads(run_node("console.log(JSON.stringify(Object.keys(FUNCTIONS)))")) == list(formulas.FUNCTIONS)


def test_python_gives_the_same() -> None:
    """Of the same cases: what the page evaluates is what the tests of the layers evaluate."""
    for equation, given, value in CASES:
        arrays = {name: as_formulas_see(name, one) for name, one in given.items()}
        formula = formulas.parse(equation)
        if "reshape" in equation:
            continue  # takes the shape of the left side, which is known to the caller
        found = formulas.evaluate(formula.expr, arrays.__getitem__, lambda name, _, arrays=arrays: arrays.get(name))
        np.testing.assert_allclose(np.ravel(found), np.ravel(as_formulas_see(formula.name, value)), err_msg=equation)


def as_formulas_see(name: str, value: Any) -> Any:
    """Heads and gates first."""
    grouped = name in GROUPED and np.ndim(value) > 1
    return value if not grouped else value[:, None] if value.ndim == 2 else np.moveaxis(value, 1, 0)


@pytest.mark.parametrize(
    ("equation", "said"),
    [
        ("y = x +", "expected name"),
        ("y = x @ w)", ") came at 9, expected end"),
        ("y = nothing", "nothing is called nothing"),
        ("y = softmx(x)", "no function is called softmx; known are exp"),
        ("y = x @ x", "(5,7) @ (5,7) do not fit"),
        ("y = x + w", "shapes (5,7) and (7,11) do not fit"),
        ("y x", "x came at 2, expected ="),
    ],
)
def test_what_is_no_formula_is_refused(equation: str, said: str) -> None:
    left = {"shape": [T, C], "grouped": False}
    (answer,) = node([{"equation": equation, "given": {"x": array(x), "w": array(w)}, "left": left}])
    assert said in answer["error"]
