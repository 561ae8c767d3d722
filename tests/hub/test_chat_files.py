"""Chat templates of Hugging Face folders: kept in the run folder, written back, and refused when they are none."""

import json
from pathlib import Path
from typing import Any

import pytest

from glassformer.data.chat_template import ChatTemplate
from glassformer.data.tokeniser_training import Characters
from glassformer.errors import CheckpointError, DataError
from glassformer.hub.folder import read_folder, write_folder
from glassformer.hub.run import write_run
from glassformer.predict.run import load

from .builders import build, write_json

NAMED = [{"name": "default", "template": "{{ 1 }}"}, {"name": "tool_use", "template": "{{ 2 }}"}]
TOKENS = {"eos_token": {"content": "<end>", "special": True}, "bos_token": "<start>", "unk_token": None}


def folder_with(path: Path, **config: Any) -> Path:
    (build(path, "llama", eos_token_id=3) / "tokenizer.json").write_text(Characters().train(["abcdef"]).to_json())
    write_json(path / "tokenizer_config.json", TOKENS | config)
    return path


def chat_of(path: Path) -> ChatTemplate:
    found = read_folder(path).chat
    assert found is not None
    return found


def test_there_and_back(tmp_path: Path) -> None:
    path = folder_with(tmp_path / "in", chat_template=NAMED)
    write_json(path / "generation_config.json", {"eos_token_id": [3, 5]})
    chat = chat_of(path)
    special = {"bos_token": "<start>", "eos_token": "<end>"}
    assert chat == ChatTemplate({"default": "{{ 1 }}", "tool_use": "{{ 2 }}"}, special, (3, 5))
    write_run(tmp_path / "run", read_folder(path))
    run = load(tmp_path / "run")
    assert run.tokeniser is not None
    assert run.tokeniser.chat == chat
    assert run.tokeniser.ends == {3, 5}
    out = tmp_path / "out"
    write_folder(out, run.model, run.params, tokeniser_json=run.tokeniser.to_json(), chat=run.tokeniser.chat)
    assert (out / "chat_template.jinja").read_text() == "{{ 1 }}"
    assert (out / "additional_chat_templates/tool_use.jinja").read_text() == "{{ 2 }}"
    assert json.loads((out / "generation_config.json").read_text())["eos_token_id"] == [3, 5]
    assert chat_of(out) == chat


def test_a_file_goes_before_the_config(tmp_path: Path) -> None:
    path = folder_with(tmp_path, chat_template="{{ 'old' }}")
    assert chat_of(path).default == "{{ 'old' }}"
    assert chat_of(path).ends == (3,)
    (path / "chat_template.jinja").write_text("{{ 'new' }}")
    assert chat_of(path).default == "{{ 'new' }}"


def test_none(tmp_path: Path) -> None:
    assert read_folder(folder_with(tmp_path)).chat is None


def test_refused(tmp_path: Path) -> None:
    for template in 5, ["{{ 1 }}"], {"default": "{{ 1 }}"}:
        with pytest.raises(CheckpointError, match=r"chat_template is .*, expected a text or a list"):
            read_folder(folder_with(tmp_path, chat_template=template))
    with pytest.raises(DataError, match="came as its templates, expected texts"):
        read_folder(folder_with(tmp_path, chat_template=[{"name": "default", "template": 1}]))
    with pytest.raises(DataError, match="has 1,048,577 characters, expected at most"):
        read_folder(folder_with(tmp_path, chat_template="a" * ((1 << 20) + 1)))
    found = read_folder(folder_with(tmp_path, chat_template=[{"name": "../up", "template": ""}]))
    with pytest.raises(CheckpointError, match=r"a chat template is called '../up', expected a plain name"):
        write_folder(tmp_path / "out", found.model, found.params, tokeniser_json=found.tokeniser_json, chat=found.chat)
