"""A plan as C: sizes, buffers, and the list of calls, forward and backward. The kernels are written by hand."""

from collections.abc import Iterable
from math import ceil, prod
from typing import NamedTuple

from glassformer.errors import EngineError
from glassformer.layers import Layer
from glassformer.native.lower import plan_for
from glassformer.native.plan import (
    HEAD_TOKENS,
    TABLE_PIECE,
    Buffer,
    Call,
    Constant,
    Input,
    Operand,
    Param,
    Plan,
    Size,
    ends,
    place,
    word,
)

LARGEST = 3.4028235e38  # finite number of 32 bits
MOST_NUMBERS = 2**31 - 1 - 64  # rounded up to a line of memory, they still fit
IN_NAMES = str.maketrans({".": "p", "-": "m", "+": "", "(": "", ")": ""})
LANES = 16  # the widest there are; places fit for any fewer
COLUMNS = 64  # of a large weight, whose gradient a thread computes at once; more, where there would be more parts than
MOST_PARTS = 2048
MOST_TABLE_PARTS = 1024  # the same of tables; together fewer than a phase has items (c/phases.h)


def source_of(model: Layer, samples: int, *, rewrites: bool = True) -> str:
    """The whole program for training and evaluating a model, but for the kernels it includes."""
    return source(plan_for(model, samples, rewrites=rewrites))


def source(plan: Plan) -> str:
    arena, samples = place(plan, LANES), plan.samples
    must_be_counted(plan, arena)
    parts = [
        f"/* {plan.title}: {samples} sample{'s' * (samples > 1)} at a time. Generated; the kernels are in c/. */",
        *([] if plan.input.is_bytes else [f"#define GF_INPUT {plan.input.c_type}"]),
        *([f"#define GF_LABELS {labels_of(plan)} /* of a sample */"] if labels_of(plan) > 1 else []),
        *(["#define GF_HEAD_LOSS /* the logits are never all there */"] if plan.loss else []),
        *(["#define GF_TABLES /* large ones */"] if plan.rows else []),
        includes(plan),
        sizes(plan, arena),
        weights(plan),
        *map(constant, plan.constants),
        buffers(plan),
        instances(plan.forward),
        forward(plan),
        "#ifndef GF_FORWARD_ONLY",
        instances(plan.backward, but=plan.forward),
        transpose_weights(plan),
        backward(plan),
        summed(plan),
        columns(plan),
        *([loss(plan.loss)] if plan.loss else []),
        *([rows(plan)] if plan.rows else []),
        "#endif",
        '#include "host.h"',
    ]
    return "\n\n".join(parts) + "\n"


def must_be_counted(plan: Plan, arena: int) -> None:
    """Places are C's int: 32 bits."""
    weights = sum(prod(shape) for shape in plan.params.values())
    for count, what in ((weights, "weights"), (arena, "activations of the samples that go through together")):
        if count > MOST_NUMBERS:
            raise EngineError(f"the native engine trains models of up to 2^31 numbers, and {count:,} {what} came")


def includes(plan: Plan) -> str:
    headers = sorted({call.header for call in plan.calls} | {"transpose"})
    return "\n".join(f'#include "{header}.h"' for header in headers)


def sizes(plan: Plan, arena: int) -> str:
    rows, columns, channels = (*(1,) * (3 - len(plan.input.shape)), *plan.input.shape)
    logits, dlogits = ends(plan)
    values = {
        "SAMPLES": plan.samples,
        "ROWS": rows,
        "COLUMNS": columns,
        "CHANNELS": channels,
        "PIXELS": plan.input.size,
        "CLASSES": logits.width,
        "PARAMETERS": sum(prod(shape) for shape in plan.params.values()),
        "TRANSPOSED": sum(prod(plan.params[name]) for name in plan.transposed),
        "ARENA": arena,
        "LOGITS": logits.offset,
        "DLOGITS": dlogits.offset,
        "COLUMN_PARTS": sum(part.parts for part in columns_of(plan)),
    }
    return "enum {\n" + "\n".join(f"    {name} = {value}," for name, value in values.items()) + "\n};"


def labels_of(plan: Plan) -> int:
    """Rows of logits of a sample."""
    return ends(plan)[0].rows // plan.samples


def weights(plan: Plan) -> str:
    """Where each weight begins: in the weights p, and its gradient in g; its transpose in t."""
    return (
        table("Weights p, and their gradients g.", "", plan.params)
        + "\n\n"
        + table("Transposes t of weights.", "transposed_", {name: plan.params[name][::-1] for name in plan.transposed})
    )


def table(title: str, prefix: str, shapes: dict[str, tuple[int, ...]]) -> str:
    lines, offset = [f"/* {title} */", "enum {"], 0
    for name, shape in shapes.items():
        lines.append(f"    {prefix}{word(name)} = {offset}, /* {shape_text(shape)} */")
        offset += prod(shape)
    return "\n".join([*lines, "};"]) if shapes else f"/* {title} None. */"


def constant(numbers: Constant) -> str:
    return f"static const float {word(numbers.name)}[] = {{{', '.join(map(number, numbers.values))}}};"


def buffers(plan: Plan) -> str:
    lines = ["/* Buffers in the arena a. Those that are never alive together share bytes. */", "enum {"]
    for buffer in plan.buffers:
        alive = f"{shape_text(buffer.shape)}, from call {buffer.born} to {buffer.dies}"
        lines.append(f"    {word(buffer.name)} = {buffer.offset}, /* {alive} */")
    return "\n".join([*lines, "};"])


def instances(calls: list[Call], but: Iterable[Call] = ()) -> str:
    """Each kernel with its sizes as constants, once for all calls that have the same; but for those written already."""
    written = {instance_name(call): instance(call) for call in calls}
    for call in but:
        written.pop(instance_name(call), None)
    return "/* The kernels at the sizes used here. */\n" + "\n".join(written.values())


def instance(call: Call) -> str:
    pointers, arguments = [], []
    for i, used in enumerate(call.operands):
        if used is None:
            arguments.append("NULL")
            continue
        name = (
            ("bytes" if used.is_bytes else "words" if used.is_words else "values")
            if isinstance(used, Input)
            else f"x{i}"
        )
        kind = f"const {used.c_type}" if isinstance(used, Input) else "const " * (i >= len(call.writes)) + "float"
        pointers.append(f"{kind} *{name}")
        arguments.append(name)
    values = ", ".join([*arguments, *map(number, call.sizes)])
    return f"static void {instance_name(call)}({', '.join(pointers)})\n{{\n    {call.kernel}({values});\n}}"


def instance_name(call: Call) -> str:
    absent = "".join(f"_no{i}" for i, used in enumerate(call.operands) if used is None)
    sizes = "_".join(number(size).removesuffix("f") for size in call.sizes)
    return f"{call.kernel}_{sizes}{absent}".translate(IN_NAMES)


def forward(plan: Plan) -> str:
    head = f"static void forward(float *a, const float *p, const {plan.input.c_type} *const *images)"
    return "\n".join([head, "{", *(statement(call, plan) for call in plan.forward), "}"])


def transpose_weights(plan: Plan) -> str:
    lines = ["static void transpose_weights(float *t, const float *p)", "{", "    (void)t, (void)p;"]
    for name in plan.transposed:
        rows, columns = plan.params[name]
        lines.append(
            f"    transpose(t + transposed_{word(name)}, {rows}, p + {word(name)}, {columns}, {rows}, {columns});"
        )
    return "\n".join([*lines, "}"])


def backward(plan: Plan) -> str:
    head = "static void backward(float *a, float *g, const float *p, const float *t)"
    return "\n".join([head, "{", "    (void)p, (void)t;", *(statement(call, plan) for call in plan.backward), "}"])


def summed(plan: Plan) -> str:
    """Which parameters have a gradient in every shard of samples: all but large weights, their biases, and tables."""
    apart, ranges, offset = plan.apart, [], 0
    for name, shape in plan.params.items():
        if name not in apart and ranges and ranges[-1][1] == offset:
            ranges[-1][1] += prod(shape)
        elif name not in apart:
            ranges.append([offset, offset + prod(shape)])
        offset += prod(shape)
    values = ", ".join(f"{{{begin}, {end}}}" for begin, end in ranges) or "{0, 0}"
    return f"enum {{ SUMMED = {max(len(ranges), 1)} }};\nstatic const int summed[SUMMED][2] = {{{values}}};"


class Columns(NamedTuple):
    """Parts of a call that have the same number of columns."""

    call: Call
    first: int  # column
    width: int
    parts: int

    @property
    def name(self) -> str:
        return f"columns_{'_'.join(map(number, self.call.sizes))}_{self.width}"


def columns_of(plan: Plan) -> list[Columns]:
    found, total = [], sum(int(call.sizes[-1]) for call in plan.columns)
    width = COLUMNS * max(1, ceil(total / (COLUMNS * MOST_PARTS)))
    for call in plan.columns:
        whole, rest = divmod(int(call.sizes[-1]), width)
        found += [Columns(call, 0, width, whole)] * (whole > 0)
        found += [Columns(call, whole * width, rest, 1)] * (rest > 0)
    return found


def column_instance(part: Columns) -> str:
    head = f"static void {part.name}(float *dw, float *db, const float *x, const float *dy, int add)"
    sizes = ", ".join(map(number, (*part.call.sizes, part.width)))
    calls = [f"linear_backward_columns(dw, db, x, dy, {sizes}, {add});" for add in (0, 1)]
    return f"{head}\n{{\n    if (add) {calls[1]}\n    else {calls[0]}\n}}"


def columns(plan: Plan) -> str:
    """Gradients of large weights: a part of their columns, over all groups of samples."""
    lines, begin = [], 0
    for part in columns_of(plan):
        (dw, db), (x, dy) = part.call.writes, part.call.reads
        used = ((dw, " + c"), (db, " + c"), (x, ""), (dy, " + c"))
        places = ["NULL" if one is None else spelled(one) + column for one, column in used]
        lines += [
            f"        {'else ' * bool(lines)}if (part < {begin + part.parts}) {{",
            f"            const int c = {part.first} + {part.width} * (part - {begin});",
            f"            {part.name}({', '.join(places)}, group > 0);",
            "        }",
        ]
        begin += part.parts
    head = "static void take_columns(float *g, const float *arenas, int groups, int part)"
    if not lines:
        return f"{head}\n{{\n    (void)g, (void)arenas, (void)groups, (void)part;\n}}"
    loop = [
        "    for (int group = 0; group < groups; group++) {",
        "        const float *a = arenas + (size_t)group * ARENA;",
    ]
    instances = dict.fromkeys(map(column_instance, columns_of(plan)))
    return "\n".join([*instances, "", head, "{", *loop, *lines, "    }", "}"])


def loss(call: Call) -> str:
    """The last layer and the loss of a group of samples, together."""
    given = "float *a, const float *p, const int32_t *labels, const float *share, float smoothing"
    values = ", ".join([spelled_all(call), "labels", "share", *map(number, call.sizes), "smoothing"])
    return f"static float loss_of_group({given})\n{{\n    return {call.kernel}({values});\n}}"


def tables_of(plan: Plan) -> dict[str, list[Call]]:
    """The calls that add to the gradient of each large table; of one that is frozen, to that of its bias."""
    found: dict[str, list[Call]] = {}
    for call in plan.rows:
        found.setdefault(next(one.name for one in call.writes if one), []).append(call)
    return found


def rows(plan: Plan) -> str:
    """Gradients of large tables: some of their rows, over all groups of samples."""
    lines, begin, counts = [], 0, {name: plan.params[name][0] for name in tables_of(plan)}
    at_once = TABLE_PIECE * ceil(sum(counts.values()) / (TABLE_PIECE * MOST_TABLE_PARTS))
    for name, count in counts.items():
        end = begin + ceil(count / at_once)
        lines += [
            f"    {'else ' * bool(lines)}if (part < {end}) {{",
            f"        const int from = {at_once} * (part - {begin}), to = from + {at_once};",
            f"        for (rows->first = from; rows->first < to && rows->first < {count}; rows->first += TABLE_PIECE)",
            f"            rows_of_{word(name)}(g, p, arenas, groups, rows);",
            "    }",
        ]
        begin = end
    widths = [int(call.sizes[1]) + HEAD_TOKENS for call in plan.rows if call.kernel == "head_loss_rows"]
    sizes = f"enum {{ TABLE_PARTS = {begin}, TABLE_WORK = {max(widths, default=0) * TABLE_PIECE} }};"
    given = "float *g, const float *p, const float *arenas, int groups"
    head = f"static void take_rows({given}, int part, table_part *rows)"
    each = [rows_of(plan, name, calls, given) for name, calls in tables_of(plan).items()]
    return "\n\n".join([sizes, *each, "\n".join([head, "{", *lines, "}"])])


def rows_of(plan: Plan, name: str, calls: list[Call], given: str) -> str:
    lines = [f"static void rows_of_{word(name)}({given}, const table_part *rows)", "{", "    (void)p;"]
    for one in dict.fromkeys(used for call in calls for used in call.writes if used):
        if one.name in plan.apart:
            count, width = plan.params[one.name][0], prod(plan.params[one.name][1:])
            lines.append(f"    clear_rows({spelled(one)}, {count}, {width}, rows);")
    lines += [
        "    for (int group = 0; group < groups; group++) {",
        "        const float *a = arenas + (size_t)group * ARENA;",
        *(f"        {call.kernel}({spelled_all(call)}, {', '.join(map(number, call.sizes))}, rows);" for call in calls),
        "    }",
        "}",
    ]
    return "\n".join(lines)


def spelled_all(call: Call) -> str:
    return ", ".join("NULL" if one is None else spelled(one) for one in call.operands)


def statement(call: Call, plan: Plan) -> str:
    """A call; one that reads the samples as they come, for each of them."""
    used = [value for value in call.operands if value is not None]
    if not any(isinstance(value, Input) for value in used):
        return f"    {instance_name(call)}({', '.join(map(spelled, used))});"
    own = [f"{spelled(value)}{own_part(value, plan)}" for value in used]
    return f"    for (int i = 0; i < SAMPLES; i++) {instance_name(call)}({', '.join(own)});"


def own_part(used: Operand, plan: Plan) -> str:
    """Where one sample's part of a buffer begins."""
    if not isinstance(used, Buffer):
        return ""
    if any(isinstance(size, str) for size in used.root.shape):  # padded: as long as the processor's vectors make it
        return f" + i * {' * '.join(map(str, used.root.shape[1:]))}"
    floats = used.root.floats(LANES) // plan.samples
    return f" + i * {'PIXELS' if floats == plan.input.size else floats}"


def spelled(used: Operand) -> str:
    """`a + attn_q`, `p + attn_w_q`, `g + attn_w_q` for its gradient, `t + transposed_attn_w_q` for its transpose."""
    match used:
        case Buffer():
            return f"a + {word(used.root.name)}"
        case Param():
            return f"{ {'': 'p + ', 'd': 'g + ', 'transposed': 't + transposed_'}[used.role] }{word(used.name)}"
        case Constant():
            return word(used.name)
        case Input():
            return "images[i]"


def number(size: Size) -> str:
    """Nine digits read back exactly."""
    if not isinstance(size, float):
        return str(size)
    if size != size:
        return "NAN"
    if abs(size) > LARGEST:
        return "INFINITY" if size > 0 else "-INFINITY"
    digits = f"{size:.9g}"
    return f"{digits}f" if "." in digits or "e" in digits else f"{digits}.0f"


def shape_text(shape: Iterable[Size]) -> str:
    return f"({', '.join(map(str, shape))})"
