"""The chat template of a Hugging Face folder, in and out.

It is chat_template.jinja, with others by name in additional_chat_templates/; or, in older folders, `chat_template` in
tokenizer_config.json, a text or a list of {"name", "template"}. It is kept as it is, and not rendered here.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glassformer.data.chat_template import SPECIAL, ChatTemplate, checked
from glassformer.errors import CheckpointError
from glassformer.hub.safe_files import file_in, json_in, read_text
from glassformer.hub.settings import shown
from glassformer.hub.tokeniser_files import CONFIG

JINJA, OTHERS = "chat_template.jinja", "additional_chat_templates"
GENERATION = "generation_config.json"


def read_chat(folder: Path, config: Mapping[str, Any]) -> ChatTemplate | None:
    """None where the folder has no template. `config` is its config.json."""
    settings = (json_in(folder, "special_tokens_map.json") or {}) | (json_in(folder, CONFIG) or {})
    templates = jinja_files(folder) or named(settings.get("chat_template"), folder / CONFIG)
    if not templates:
        return None
    spelled = {name: content_of(settings.get(name)) for name in SPECIAL}
    generation = json_in(folder, GENERATION) or {}
    ends = generation.get("eos_token_id", config.get("eos_token_id"))
    ends = ends if isinstance(ends, list) else [] if ends is None else [ends]
    special = {name: word for name, word in spelled.items() if word is not None}
    return checked(templates, special, ends, str(folder))


def jinja_files(folder: Path) -> dict[str, str]:
    whole, others = file_in(folder, JINJA), folder / OTHERS
    names = sorted(path.name for path in others.glob("*.jinja")) if others.is_dir() else []
    found = {"default": whole} if whole else {}
    found |= {name.removesuffix(".jinja"): path for name in names if (path := file_in(folder, name, OTHERS))}
    return {name: read_text(path) for name, path in found.items()}


def named(given: Any, where: Path) -> dict[str, Any]:
    """Of what tokenizer_config.json says."""
    rows = [{"name": "default", "template": given}] if isinstance(given, str) else given or []
    if not isinstance(rows, list) or not all(
        isinstance(row, dict) and isinstance(row.get("name"), str) for row in rows
    ):
        raise CheckpointError(f"{where}: chat_template is {shown(given)}, expected a text or a list of name, template")
    return {row["name"]: row.get("template") for row in rows}


def content_of(token: Any) -> Any:
    """A special token is a text, or a text with how it is found."""
    return token.get("content") if isinstance(token, dict) else token


def chat_files(chat: ChatTemplate) -> dict[str, str]:
    """Each template in the file where it is looked for."""
    for name in chat.templates:
        if not name or any(sign in name for sign in "/\\\0:") or name.startswith("."):
            raise CheckpointError(f"a chat template is called {shown(name)}, expected a plain name: it becomes a file")
    return {
        JINJA if name == "default" else f"{OTHERS}/{name}.jinja": template for name, template in chat.templates.items()
    }


def end_numbers(chat: ChatTemplate) -> dict[str, Any]:
    """What config.json and generation_config.json say of the tokens that end a turn."""
    return {"eos_token_id": chat.ends[0] if len(chat.ends) == 1 else list(chat.ends)} if chat.ends else {}
