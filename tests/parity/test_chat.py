"""Chat templates, rendered here and by transformers: the same texts, tokens and turns of the assistant."""

from pathlib import Path
from typing import Any

import jax
import pytest

pytest.importorskip("transformers", minversion="5.22")
import transformers
from tokenizers import AddedToken

from glassformer.data.chat_template import CHATML, ChatTemplate
from glassformer.data.conversations import encode_conversations, with_template
from glassformer.data.texts import Example, Texts
from glassformer.data.tokeniser import Tokeniser
from glassformer.data.tokeniser_training import BytePairs, Characters
from glassformer.hub.folder import read_folder, write_folder
from glassformer.models import Llama, Text
from glassformer.train.tasks import Chat

pytestmark = pytest.mark.slow

WORDS = "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ 0123456789 äöüé […]<>|/_.,:;?!'\"-+{}()\n"
SYMBOLS = ("<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|header|>", "<|eot|>", "[INST]", "[/INST]")
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
TEMPLATES = {
    "chatml": CHATML,
    "chatml with a system message": """
{%- if messages[0].role != 'system' %}
    {{- '<|im_start|>system\\nYou help.<|im_end|>\\n' }}
{%- endif %}
{% for message in messages %}
    <|im_start|>{{ message['role'] }}
{{ message['content'] | trim }}<|im_end|>
{% endfor %}
{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}""",
    "llama 2": """
{%- set system = messages[0]['content'] if messages[0]['role'] == 'system' else '' %}
{%- for message in (messages[1:] if system else messages) %}
    {%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('turns must alternate') }}
    {%- endif %}
    {%- if message.role == 'user' %}
        {%- set head = '<<SYS>>\\n' ~ system ~ '\\n<</SYS>>\\n\\n' if loop.first and system else '' %}
        {{- bos_token ~ '[INST] ' ~ head ~ message.content.strip() ~ ' [/INST]' }}
    {%- else %}
        {{- ' ' ~ message.content.strip() ~ ' ' ~ eos_token }}
    {%- endif %}
{%- endfor %}""",
    "llama 3": """
{{- bos_token }}
{%- if not date is defined %}{% set date = strftime_now('%d %b %Y') %}{% endif %}
{{- '<|header|>system\\n\\nToday: ' + date + '\\n' }}
{%- if tools is not none %}{{ tools | tojson(indent=4) }}{% endif %}
{{- '<|eot|>' }}
{%- for message in messages %}
    {%- generation %}{% endgeneration %}
    {{- '<|header|>' + message['role'] + '\\n\\n' + message['content'] | trim + '<|eot|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|header|>assistant\\n\\n' }}
{%- endif %}""",
    "mistral": """
{{- bos_token }}
{%- set turns = namespace(last=-1) %}
{%- for message in messages %}
    {%- if message.role == 'user' %}{% set turns.last = loop.index0 %}{% endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.role == 'system' %}
        {%- continue %}
    {%- elif message.role == 'user' %}
        {%- if loop.index0 == turns.last and messages[0].role == 'system' %}
            {{- '[INST] ' + messages[0].content + '\\n\\n' + message.content + '[/INST]' }}
        {%- else %}
            {{- '[INST] ' + message.content + '[/INST]' }}
        {%- endif %}
    {%- else %}
        {{- ' ' }}{% generation %}{{ message.content | trim }}{{ eos_token }}{% endgeneration %}
    {%- endif %}
{%- endfor %}""",
    "as JSON": "{{ messages | tojson }}{% for k in messages[0].keys() %}{{ k }}{{ loop.cycle('a', 'b') }}{% endfor %}",
}
TALKS: list[list[dict[str, str]]] = [
    [{"role": "user", "content": ' Grüße, "hi" \n'}],
    [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "  hello… "},
        {"role": "user", "content": "?"},
    ],
    [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "2 + 2"},
        {"role": "assistant", "content": "4"},
        {"role": "user", "content": "and </s> <|eot|>?"},
        {"role": "assistant", "content": "No <|im_end|> here"},
    ],
]


@pytest.fixture(scope="module")
def tokeniser() -> Tokeniser:
    made = BytePairs(400).train([WORDS, "user assistant system hello"], marks=SYMBOLS[2:6])
    made.inner.add_special_tokens([AddedToken(word, normalized=False, special=True) for word in SYMBOLS])
    return made


def both(tokeniser: Tokeniser, template: str, path: Path) -> tuple[Tokeniser, Any]:
    """Ours as it is imported, and theirs, from one folder."""
    model = Llama(Text(tokeniser.size, 64), width=8, hidden=8, heads=2, key_heads=1, depth=1)
    ends = tuple(tokeniser.inner.token_to_id(word) for word in ("</s>", "<|im_end|>", "<|eot|>"))
    chat = ChatTemplate({"default": template}, SPECIAL, ends)
    params = model.init(jax.random.key(0))
    write_folder(path, model, params, tokeniser_json=tokeniser.to_json(), chat=chat)
    found = read_folder(path)
    assert found.tokeniser_json is not None
    assert found.chat == chat
    return Tokeniser.from_json(found.tokeniser_json, "test", found.chat), transformers.AutoTokenizer.from_pretrained(
        path
    )


@pytest.mark.parametrize("name", ["chatml", "mistral"])  # those with generation blocks
def test_the_turns_of_the_assistant(name: str, tokeniser: Tokeniser, tmp_path: Path) -> None:
    ours, theirs = both(tokeniser, TEMPLATES[name], tmp_path)
    talks = [talk for talk in TALKS if any(message["role"] == "assistant" for message in talk)]
    examples = tuple(Example("", messages=tuple(talk)) for talk in talks)
    rows = Chat().encode(Texts("made", examples, examples), ours, 500).train
    for i, talk in enumerate(talks):
        found = theirs.apply_chat_template(talk, return_dict=True, return_assistant_tokens_mask=True)
        ids, mask = found["input_ids"], found["assistant_masks"]
        assert sum(mask) > 0
        assert rows.ids[i, : len(ids) - 1].tolist() == ids[:-1]
        assert rows.labels[i, : len(ids) - 1].tolist() == ids[1:]
        assert rows.counts[i].astype(int).tolist() == mask[1:] + [0] * (rows.counts.shape[1] - len(mask) + 1)


def test_our_own_tokeniser(tmp_path: Path) -> None:
    """As a run that was tuned on conversations goes out."""
    own = with_template(Characters().train([WORDS]), "chatml", "here")
    model = Llama(Text(own.size, 64), width=8, hidden=8, heads=2, key_heads=1, depth=1)
    write_folder(tmp_path, model, model.init(jax.random.key(0)), tokeniser_json=own.to_json(), chat=own.chat)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for talk in TALKS:
        ids = theirs.apply_chat_template(talk, add_generation_prompt=True, return_dict=True)["input_ids"]
        assert encode_conversations(own, [talk])[0] == ids
        assert own.id_of("start") in ids
    assert theirs.eos_token_id == own.id_of("end")


@pytest.mark.parametrize("name", TEMPLATES)
def test_templates(name: str, tokeniser: Tokeniser, tmp_path: Path) -> None:
    ours, theirs = both(tokeniser, TEMPLATES[name], tmp_path)
    assert ours.chat is not None
    for talk in TALKS:
        for prompt in True, False:
            text = theirs.apply_chat_template(talk, tokenize=False, add_generation_prompt=prompt)
            assert ours.chat.render(talk, prompt=prompt) == text
        ids = theirs.apply_chat_template(talk, add_generation_prompt=True, return_dict=True)["input_ids"]
        assert encode_conversations(ours, [talk])[0] == ids
