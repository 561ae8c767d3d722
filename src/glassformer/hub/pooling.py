"""The layout of sentence-transformers: an encoder's folder that also says how tokens become one vector.

modules.json                         the steps, each with its class and its folder: Transformer, Pooling, Normalize
1_Pooling/config.json                mean over the tokens, the first token, …
sentence_bert_config.json            max_seq_length
config_sentence_transformers.json    prompts, one of which may stand before every text

What would change the vectors and is not computed here is refused by name.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from glassformer import reading
from glassformer.errors import CheckpointError, SettingError
from glassformer.hub import settings
from glassformer.hub.safe_files import file_in, json_in, told
from glassformer.hub.settings import shown
from glassformer.models.bert import BERT
from glassformer.models.model import Network
from glassformer.structure import structure
from glassformer.train.tasks.embed import Embed, Pooling, Vectors

MODULES, POOLING, CONFIG = "modules.json", "1_Pooling", "config.json"
LENGTH, PROMPTS = "sentence_bert_config.json", "config_sentence_transformers.json"
KNOWN: dict[str, Pooling] = {"mean": "mean", "cls": "first"}
FLAGS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}  # as most files say it
PREFIX = "pooling_mode_"
SUPPORTED = "mean (pooling_mode_mean_tokens) and first token (pooling_mode_cls_token) are"


@dataclass(frozen=True)
class Layout:
    """What the files say, checked."""

    pooling: Pooling = "mean"
    normalise: bool = False
    longest: int = 0  # tokens; 0: not said
    width: int = 0  # of the vectors; 0: not said
    notes: list[str] = field(default_factory=list)


def read_layout(folder: Path) -> Layout | None:
    """None where the folder is not of this layout."""
    steps = read_steps(folder)
    if steps is None:
        return None
    pooling, width = ("mean", 0) if steps.pooling is None else read_pooling(folder, steps.pooling)
    longest, notes = read_length(folder)
    notes += read_prompt(folder)
    return Layout(pooling, steps.normalise, longest, width, notes)


def task_from(layout: Layout | None, model: BERT) -> tuple[Embed, list[str]]:
    """The task of a run of the encoder, and what a person should know about it."""
    if layout is None:
        note = f"no {MODULES} that says how to pool: the mean over the tokens; `embed --pooling first` takes the first"
        return Embed(), [note]
    if layout.width not in (0, model.width):
        raise CheckpointError(f"{POOLING}: vectors of {layout.width} numbers, and the model gives {model.width}")
    longest = 0 if layout.longest >= model.text.context else layout.longest
    return Embed(layout.pooling, layout.normalise, longest), layout.notes


def layout_of(task: Vectors, model: Network) -> dict[str, Any]:
    """The files that say it, by name; `read_layout` reads them."""
    steps = {"Transformer": "", "Pooling": POOLING} | ({"Normalize": "2_Normalize"} if task.normalise else {})
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, path) in enumerate(steps.items())
    ]
    context, width = structure(model.backbone).y.shape[1:]
    flags = {flag: KNOWN[word] == task.pooling for flag, word in FLAGS.items()}
    return {
        MODULES: modules,
        f"{POOLING}/{CONFIG}": {"word_embedding_dimension": width, **flags},
        LENGTH: {"max_seq_length": task.longest or context, "do_lower_case": False},
    }


@dataclass(frozen=True)
class Steps:
    pooling: str | None  # the folder of its settings
    normalise: bool


def read_steps(folder: Path) -> Steps | None:
    file = file_in(folder, MODULES)
    if file is None:
        return Steps(POOLING, normalise=False) if file_in(folder, CONFIG, POOLING) else None
    with told(file):
        steps = [step_from(one) for one in as_list(reading.read_json(file, CheckpointError))]
        kinds = [kind for kind, _ in steps]
        if kinds not in (["Transformer", "Pooling"][:n] + tail for n in (1, 2) for tail in ([], ["Normalize"])):
            raise SettingError(
                f"the steps {shown(', '.join(kinds))} came, supported: Transformer, Pooling, and Normalize behind them"
            )
        if steps[0][1]:
            raise SettingError(f"the Transformer lies in {shown(steps[0][1])}, expected the folder itself; import that")
        return Steps(dict(steps).get("Pooling"), "Normalize" in kinds)


def as_list(content: Any) -> list[Any]:
    if not isinstance(content, list):
        raise CheckpointError(f"{shown(content)} came, expected a list of steps: [{{…}}]")
    return content


def step_from(given: Any) -> tuple[str, str]:
    """The class without its package, and the folder."""
    kind, path = (given.get("type"), given.get("path")) if isinstance(given, dict) else (None, None)
    if not isinstance(kind, str) or not isinstance(path, str):
        raise CheckpointError(f'{shown(given)} came as a step, expected {{"type": "….Pooling", "path": "{POOLING}"}}')
    return kind.rpartition(".")[2], path.rstrip("/")


def read_pooling(folder: Path, name: str) -> tuple[Pooling, int]:
    """How, and how many numbers a vector has."""
    config = json_in(folder, CONFIG, name)
    if config is None:
        raise CheckpointError(f"{folder / name / CONFIG}: is missing, and {MODULES} names it; copy the whole folder")
    with told(folder / name / CONFIG):
        named = ("word_embedding_dimension", "embedding_dimension")
        sizes = [settings.whole(config, name, settings.WIDEST, None) or 0 for name in named]
        return KNOWN[pooling_word(config)], max(sizes)


def pooling_word(config: dict[str, Any]) -> str:
    word = settings.given(config, "pooling_mode", None)
    if word is not None:  # as recent files say it
        if not isinstance(word, str) or word not in KNOWN:
            raise SettingError(f"pooling_mode: {shown(word)} came, which is not supported; {SUPPORTED}")
        return word
    chosen = [key for key in config if key.startswith(PREFIX) and settings.yes(config, key, default=False)]
    if len(chosen) != 1 or chosen[0] not in FLAGS:
        came = f"{', '.join(chosen)} came, which is not supported" if chosen else f"no {PREFIX}… is true"
        raise SettingError(f"{came}; {SUPPORTED}, one of them")
    return FLAGS[chosen[0]]


def read_length(folder: Path) -> tuple[int, list[str]]:
    config = json_in(folder, LENGTH) or {}
    with told(folder / LENGTH):
        longest = settings.whole(config, "max_seq_length", settings.MOST_SYMBOLS, None) or 0
        lower = settings.yes(config, "do_lower_case", default=False)
    return longest, ["do_lower_case: the case of letters is left to the tokeniser"] if lower else []


def read_prompt(folder: Path) -> list[str]:
    config = json_in(folder, PROMPTS) or {}
    with told(folder / PROMPTS):
        name = settings.word(config, "default_prompt_name", "")
        prompts = settings.given(config, "prompts", {})
        prompt = prompts.get(name) if isinstance(prompts, dict) else None
        if name and not isinstance(prompt, str):
            raise SettingError(f"default_prompt_name: {shown(name)} came, and prompts has no text of that name")
    return [f"every text begins with {shown(prompt)} there, and not here: write it yourself"] if name and prompt else []
