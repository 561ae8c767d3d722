"""A plan as C: sizes, buffers, and the list of calls, forward and backward. The kernels are written by hand."""

from collections.abc import Iterable

from glassformer.models import Model
from glassformer.native.layers import plan_for
from glassformer.native.plan import Buffer, Call, Param, Plan, Size, ends, place

LANES = 16  # the widest there are; places fit for any fewer


def source_of(model: Model, samples: int, *, rewrites: bool = True) -> str:
    """The whole program for training and evaluating a model, but for the kernels it includes."""
    plan = plan_for(model, samples, rewrites=rewrites)
    arena = place(plan, LANES)
    parts = [
        f"/* {describe(model)}: {samples} sample{'s' * (samples > 1)} at a time. Generated; the kernels are in c/. */",
        includes(plan),
        sizes(model, plan, arena),
        weights(plan),
        buffers(plan),
        instances(plan.forward),
        forward(plan),
        "#ifndef GF_FORWARD_ONLY",
        instances(plan.backward, but=plan.forward),
        transpose_weights(plan),
        backward(plan),
        "#endif",
        '#include "host.h"',
    ]
    return "\n\n".join(parts) + "\n"


def describe(model: Model) -> str:
    return f"{type(model).__name__} for images of {'x'.join(map(str, model.images.shape))}"


def includes(plan: Plan) -> str:
    headers = sorted({call.header for call in (*plan.forward, *plan.backward)} | {"transpose"})
    return "\n".join(f'#include "{header}.h"' for header in headers)


def sizes(model: Model, plan: Plan, arena: int) -> str:
    rows, columns, channels = model.images.shape
    logits, dlogits = ends(plan)
    values = {
        "SAMPLES": plan.samples,
        "ROWS": rows,
        "COLUMNS": columns,
        "CHANNELS": channels,
        "PIXELS": model.images.pixels,
        "CLASSES": model.images.classes,
        "PARAMETERS": sum(floats(shape) for shape in plan.params.values()),
        "TRANSPOSED": sum(floats(plan.params[name]) for name in plan.transposed),
        "ARENA": arena,
        "LOGITS": logits.offset,
        "DLOGITS": dlogits.offset,
    }
    return "enum {\n" + "\n".join(f"    {name} = {value}," for name, value in values.items()) + "\n};"


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
        offset += floats(shape)
    return "\n".join([*lines, "};"]) if shapes else f"/* {title} None. */"


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
    for i, used in enumerate((*call.writes, *call.reads)):
        if used is None:
            arguments.append("NULL")
            continue
        pointers.append(f"{'float' if i < len(call.writes) else 'const float'} *x{i}")
        arguments.append(f"x{i}")
    if call.kernel == "standardise_forward":
        pointers.append("const uint8_t *bytes")
        arguments.append("bytes")
    values = ", ".join([*arguments, *map(number, call.sizes)])
    return f"static void {instance_name(call)}({', '.join(pointers)})\n{{\n    {call.kernel}({values});\n}}"


def instance_name(call: Call) -> str:
    absent = "".join(f"_no{i}" for i, used in enumerate((*call.writes, *call.reads)) if used is None)
    sizes = "_".join(number(size).removesuffix("f") for size in call.sizes)
    return f"{call.kernel}_{sizes}{absent}".replace(".", "p").replace("-", "m").replace("(", "").replace(")", "")


def forward(plan: Plan) -> str:
    first, *rest = plan.forward
    pixels = f"{spelled(first.writes[0])} + i * PIXELS"
    lines = [
        "static void forward(float *a, const float *p, const uint8_t *const *images)",
        "{",
        f"    for (int i = 0; i < SAMPLES; i++) {instance_name(first)}({pixels}, images[i]);",
        *map(statement, rest),
        "}",
    ]
    return "\n".join(lines)


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
    return "\n".join([head, "{", "    (void)p, (void)t;", *map(statement, plan.backward), "}"])


def statement(call: Call) -> str:
    used = [spelled(value) for value in (*call.writes, *call.reads) if value is not None]
    return f"    {instance_name(call)}({', '.join(used)});"


def spelled(used: Buffer | Param) -> str:
    """`a + attn_q`, `p + attn_w_q`, `g + attn_w_q` for its gradient, `t + transposed_attn_w_q` for its transpose."""
    if isinstance(used, Buffer):
        return f"a + {word(used.name)}"
    return f"{ {'': 'p + ', 'd': 'g + ', 'transposed': 't + transposed_'}[used.role] }{word(used.name)}"


def word(name: str) -> str:
    return name.replace(".", "_")


def number(size: Size) -> str:
    """Nine digits read back exactly."""
    if not isinstance(size, float):
        return str(size)
    digits = f"{size:.9g}"
    return f"{digits}f" if "." in digits or "e" in digits else f"{digits}.0f"


def shape_text(shape: Iterable[Size]) -> str:
    return f"({', '.join(map(str, shape))})"


def floats(shape: tuple[int, ...]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total
