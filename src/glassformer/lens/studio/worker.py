"""What is done in the process that touches runs (work_queue.py): read them, run them, look inside.

Loaded runs and compiled programs stay here from one piece of work to the next.
"""

from typing import Any

from glassformer.errors import GlassformerError
from glassformer.lens.payload import encoded
from glassformer.lens.payload import view as whole_view
from glassformer.lens.studio.compile_limit import CompileLimit
from glassformer.lens.studio.inputs import of_sample, trace_input_of, unpacked
from glassformer.lens.studio.json_bytes import json_bytes
from glassformer.lens.studio.preview import preview as previewed
from glassformer.lens.studio.requests import Input
from glassformer.lens.studio.run_cache import FirstSamples, RunCache, newest
from glassformer.lens.studio.runs import Place
from glassformer.lens.studio.samples import Sample
from glassformer.lens.studio.what_if import Question, answer
from glassformer.lens.studio.writing import Asked, write_on

RUNS, FIRST, COMPILED = RunCache(), FirstSamples(), CompileLimit()


def sample(place: Place, index: int) -> bytes:
    place.check()
    samples = RUNS.get(place.path).samples
    return json_bytes({"name": f"test:{index}", "count": samples.count, **plain_sample(samples.at(index))})


def preview(place: Place, name: str, given: Input) -> bytes:
    ready = unpacked(given)
    try:
        place.check()
        loaded = RUNS.get(place.path)
        return json_bytes({**previewed(loaded.run, trace_input_of(loaded, ready), COMPILED), "run": name})
    except GlassformerError as error:
        return json_bytes({"error": str(error)})


def view(place: Place, name: str, given: Input) -> bytes:
    place.check()
    loaded = RUNS.get(place.path)
    trace_input = trace_input_of(loaded, unpacked(given))
    COMPILED.note(loaded.run.model, trace_input.x)
    return json_bytes({**whole_view(loaded.run, trace_input, alone=False), "run": name})


def what_if(place: Place, given: Input, question: Question) -> bytes:
    place.check()
    loaded = RUNS.get(place.path)
    trace_input = trace_input_of(loaded, unpacked(given))
    COMPILED.note((loaded.run.model, "what if"), trace_input.x)
    return json_bytes(answer(loaded.run, trace_input, question))


def write(place: Place, asked: Asked) -> bytes:
    place.check()
    return json_bytes(write_on(RUNS.get(place.path), asked))


def look(place: Place) -> tuple[int, dict[str, Any]]:
    """What a run in training makes of its first test sample: the epoch, and a preview with its weights."""
    place.check()
    epoch, run = newest(place.path)
    return epoch, previewed(run, of_sample(run, 0, FIRST.get(run)), COMPILED)


def plain_sample(sample: Sample) -> dict[str, Any]:
    if sample.image is None:
        return {"text": sample.text, "target": sample.target}
    return {"image": encoded(sample.image), "label": sample.label}
