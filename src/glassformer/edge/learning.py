"""The C of a model that also learns: its weights in RAM, a step of training, and bytes that outlast a power failure."""

from dataclasses import dataclass
from typing import Any
from zlib import crc32

import jax
import numpy as np

from glassformer.edge.layers import program_of
from glassformer.edge.plan import layout_of
from glassformer.edge.training import Lesson, Tune, adapters_of, lesson_of
from glassformer.edge.write import Source, members, values
from glassformer.errors import SettingError
from glassformer.names import named_leaves
from glassformer.native.plan import Buffer, Call, Constant, Operand, Param, ends, word
from glassformer.native.write import number, shape_text
from glassformer.train.optimiser import Optimiser
from glassformer.train.tune import LowRank

FORMAT = 1  # of saved weights
HEADER = 20  # bytes before them: format, model, number, how many bytes follow, checksum
ERRORS = {
    "NOT_BEGUN": -3,
    "NO_SUCH_LABEL": -4,
    "SAVED_TOO_SHORT": -5,
    "SAVED_DAMAGED": -6,
    "SAVED_BY_ANOTHER": -7,
}
MEMORY = {"sgd": (), "momentum": ("m",), "adam": ("m", "v"), "adamw": ("m", "v")}
EPS = 1e-8  # of Adam, as optax has it


@dataclass(frozen=True)
class LearningSource(Source):
    lesson: Lesson
    optimiser: Optimiser
    batch: int = 1
    smoothing: float = 0.0

    @classmethod
    def of(
        cls,
        name: str,
        title: str,
        model: Any,
        weights: dict[str, np.ndarray],
        tune: Tune,
        optimiser: Optimiser,
        batch: int = 1,
        smoothing: float = 0.0,
        lora: LowRank | None = None,
    ) -> "LearningSource":
        """The C of a model that is tuned so; the thin matrices of lora begin as in training."""
        lesson = lesson_of(model, tune, lora)
        layout = layout_of(program_of(model, adapters_of(model, lesson.lora)))
        if lesson.lora is not None:
            drawn = lesson.lora.network(model).init(jax.random.key(0))
            thin = named_leaves(drawn._replace(base=None))
            weights = weights | {name: np.asarray(array) for name, array in thin.items()}
        return cls(name, title, layout, weights, lesson, optimiser, batch, smoothing)

    def __post_init__(self) -> None:
        if self.optimiser.name not in MEMORY:
            raise SettingError(f"a device has the optimisers {', '.join(MEMORY)}, and {self.optimiser.name} came")

    @property
    def at_once(self) -> bool:
        """No gradient is kept: weights are updated while backward goes on."""
        return self.optimiser.name == "sgd" and self.batch == 1 and not self.lesson.hazard

    @property
    def copies(self) -> tuple[str, ...]:
        """What there is of each trained weight."""
        return ("weights", *(() if self.at_once else ("gradient",)), *MEMORY[self.optimiser.name])

    @property
    def state(self) -> int:
        """Bytes of what lasts from one sample to the next."""
        return 16 + 4 * self.lesson.parameters * len(self.copies)

    @property
    def arena(self) -> int:
        return self.state + max(self.layout.arena, self.lesson.work)

    @property
    def flash(self) -> dict[str, dict[str, np.ndarray]]:
        trained = {name: self.weights[name] for name in self.lesson.trained}
        return {"weights": {n: one for n, one in self.weights.items() if n not in trained}, "exported": trained}

    @property
    def api(self) -> tuple[str, ...]:
        return ("predict", "train_step", "begin", "save", "load", "newest")

    @property
    def errors(self) -> dict[str, int]:
        return super().errors | ERRORS

    @property
    def model_number(self) -> int:
        """Of the trained weights' names and shapes: saved bytes say whose they are."""
        return crc32(repr(sorted(self.lesson.trained.items())).encode())

    def functions(self) -> str:
        name, upper = self.name, self.upper
        when = (
            "at once"
            if self.at_once
            else f"after every {self.batch} samples"
            if self.batch > 1
            else "after every sample"
        )
        return f"""#define {upper}_SAVED {HEADER + 4 * self.lesson.parameters} /* bytes of saved weights */

/* Every function returns an error, which is below 0, where something is wrong; then nothing has changed. */

/* First of all: the arena gets the weights as they were exported. */
int {name}_begin(void *arena, size_t bytes);

/* logits ({upper}_OUTPUTS)  <-  x ({upper}_INPUTS).  Returns the number of the highest. */
{self.signature()};

/* Learn from a sample, by {self.optimiser.name}; weights are updated {when}.  loss: before that. */
{self.step_signature()};

/* Trained weights as bytes, for flash or a file. Keep two slots: save to the one that is not the newest, with a number
 * that is 1 higher, and a power failure at any moment leaves the other. Bytes lie as in this processor's memory. */
int {name}_save(void *saved, size_t saved_bytes, uint32_t number, const void *arena, size_t bytes);
int {name}_load(void *arena, size_t bytes, const void *saved, size_t saved_bytes);

/* Which of two slots was saved last and is whole: 0 or 1.  *number: its own. */
int {name}_newest(uint32_t *number, const void *slot0, const void *slot1, size_t slot_bytes);"""

    def step_signature(self) -> str:
        return (
            f"int {self.name}_train_step(float *loss, {self.input}, int label, float rate, void *arena, size_t bytes)"
        )

    def structs(self) -> list[str]:
        frozen, trained = self.flash.values()
        const = ["static const struct {", *members(frozen), "} weights = {", *values(frozen), "};", ""]
        types = ["typedef struct {", *members(trained), "} trained_weights;", ""]
        return [*(const if frozen else []), *types, "static const trained_weights exported = {", *values(trained), "};"]

    def spelled(self, weight: str) -> str:
        return f"w->{word(weight)}" if weight in self.lesson.trained else f"weights.{word(weight)}"

    def headers(self) -> list[str]:
        used = ["cross_entropy", "checksum", *(() if self.at_once else ("optimisers",))]
        return list(dict.fromkeys([*super().headers(), *(call.header for call in self.lesson.plan.calls), *used]))

    def beginning(self, const: str = "const ") -> list[str]:
        lines = super().beginning()[:-1]
        return [
            *lines,
            f"    {const}learner *const own = ({const}learner *)arena;",
            f"    if (own->begun != BEGUN) return {self.upper}_NOT_BEGUN;",
            f"    {const}trained_weights *const w = &own->weights;",
            "    void *const memory = (learner *)arena + 1;",
        ]

    def body(self) -> str:
        parts = [self.types(), super().body(), self.begin(), self.train_step(), self.saving()]
        return "\n\n".join(parts)

    def types(self) -> str:
        copies = ", ".join(self.copies)
        return f"""/* What lasts from one sample to the next, at the beginning of the arena. */
typedef struct {{
    uint32_t begun, samples; /* of the batch, so far */
    float unbias[2];
    trained_weights {copies};
}} learner;

typedef char learner_is_as_planned[sizeof(learner) == {self.state} ? 1 : -1];

enum {{ BEGUN = 0x6c6e7267, FORMAT = {FORMAT}, BATCH = {self.batch}, TRAINED = {self.lesson.parameters} }};"""

    def begin(self) -> str:
        checks = "\n".join(super().beginning()[:-1])
        return f"""int {self.name}_begin(void *arena, size_t bytes)
{{
{checks}
    learner *const own = (learner *)arena;
    memset(own, 0, sizeof *own);
    own->weights = exported;
    own->begun = BEGUN;
    return 0;
}}"""

    def train_step(self) -> str:
        plan, lesson = self.lesson.plan, self.lesson
        logits, dlogits = (word(one.name) for one in ends(plan))
        gradient = "w" if self.at_once else "&own->gradient"
        factor, classes = "-rate" if self.at_once else "1.0f", f"{self.upper}_OUTPUTS"
        buffers = [
            f"    float *const {word(one.name)} = (float *)memory + {one.offset}; /* {shape_text(one.shape)} */"
            for one in plan.buffers
        ]
        taken = [word(one.name) for one in plan.buffers]
        frozen = self.loops(lesson.frozen, word(lesson.begin.name), lesson.frozen_at, taken) if lesson.frozen else []
        lines = [
            self.step_signature(),
            "{",
            *self.beginning(const=""),
            f"    if (label < 0 || label >= {self.upper}_OUTPUTS) return {self.upper}_NO_SUCH_LABEL;",
            f"    trained_weights *const g = {gradient};",
            *buffers,
            *(["    {", *(f"    {line}" for line in frozen), "    }"] if frozen else []),
            *map(self.call, plan.forward),
            f"    *loss = cross_entropy({dlogits}, {logits}, label, {classes}, {number(self.smoothing)}, {factor});",
            *map(self.call, plan.backward),
            *self.update(),
            "    return 0;",
            "}",
        ]
        return "\n".join(lines)

    def call(self, call: Call) -> str:
        arguments = [*map(self.operand, call.operands), *map(number, call.sizes)]
        return f"    {call.kernel}({', '.join(arguments)});"

    def operand(self, used: Operand | None) -> str:
        match used:
            case Buffer():
                return word(used.root.name)
            case Param():
                return f"g->{word(used.name)}" if used.role == "d" else self.spelled(used.name)
            case Constant():
                return word(used.name)
        return "NULL" if used is None else "x"

    def update(self) -> list[str]:
        if self.at_once:
            return []
        one, floats = self.optimiser, [f"(float *)&own->{name}" for name in self.copies]
        settings = {
            "sgd": (),
            "momentum": (one.momentum,),
            "adam": (one.b1, 1 - one.b1, one.b2, 1 - one.b2, EPS, 0.0),
            "adamw": (one.b1, 1 - one.b1, one.b2, 1 - one.b2, EPS, one.weight_decay),
        }[one.name]
        kernel, unbias = ("adamw", ["own->unbias"]) if len(floats) == 4 else (one.name, [])
        arguments = [*floats, "TRAINED", "(float)BATCH", "rate", *unbias, *(number(float(value)) for value in settings)]
        return [
            "    if (++own->samples == BATCH) {",
            f"        {kernel}({', '.join(arguments)});",
            "        own->samples = 0;",
            "    }",
        ]

    def saving(self) -> str:
        name, upper = self.name, self.upper
        checks = "\n".join(self.beginning()[:-2])
        return f"""/* Before the weights: format, model, number, bytes of weights, and a checksum of everything. */
static int is_saved(uint32_t header[5], const unsigned char *saved, size_t saved_bytes)
{{
    if (saved_bytes < {upper}_SAVED) return {upper}_SAVED_TOO_SHORT;
    memcpy(header, saved, {HEADER});
    if (header[0] != FORMAT || header[1] != {self.model_number}u) return {upper}_SAVED_BY_ANOTHER;
    const uint32_t sum = checksum(saved, 16) ^ checksum(saved + {HEADER}, sizeof(trained_weights));
    return header[3] != sizeof(trained_weights) || header[4] != sum ? {upper}_SAVED_DAMAGED : 0;
}}

int {name}_save(void *saved, size_t saved_bytes, uint32_t number, const void *arena, size_t bytes)
{{
{checks}
    if (saved_bytes < {upper}_SAVED) return {upper}_SAVED_TOO_SHORT;
    uint32_t header[5] = {{FORMAT, {self.model_number}u, number, sizeof(trained_weights), 0}};
    const unsigned char *const start = (const unsigned char *)header;
    header[4] = checksum(start, 16) ^ checksum((const unsigned char *)&own->weights, sizeof(trained_weights));
    memcpy((unsigned char *)saved + {HEADER}, &own->weights, sizeof(trained_weights));
    memcpy(saved, header, {HEADER});
    return 0;
}}

int {name}_load(void *arena, size_t bytes, const void *saved, size_t saved_bytes)
{{
    uint32_t header[5];
    const int wrong = is_saved(header, (const unsigned char *)saved, saved_bytes);
    if (wrong) return wrong;
    const int begun = {name}_begin(arena, bytes);
    if (begun) return begun;
    memcpy(&((learner *)arena)->weights, (const unsigned char *)saved + {HEADER}, sizeof(trained_weights));
    return 0;
}}

int {name}_newest(uint32_t *number, const void *slot0, const void *slot1, size_t slot_bytes)
{{
    uint32_t first[5], second[5];
    const int wrong0 = is_saved(first, (const unsigned char *)slot0, slot_bytes);
    const int wrong1 = is_saved(second, (const unsigned char *)slot1, slot_bytes);
    if (wrong0 && wrong1) return wrong0;
    const int newest = wrong0 || (!wrong1 && second[2] - first[2] < 0x80000000u && second[2] != first[2]);
    *number = newest ? second[2] : first[2];
    return newest;
}}"""
