"""A small Llama reads Python's help, then learns from conversations, by LoRA, to answer dates with ISO dates.

Only the assistant's turns count in the loss. Pieces of what it has read stand among the conversations, as plain texts:
without them it forgets how to read.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import babel.dates

import glassformer
from glassformer.data.dates import forms_of, shuffled_days, write
from glassformer.data.text_sources import load_texts
from glassformer.hub.peft import write_adapter
from glassformer.train.run_folder import RunFolder

PLAIN = "pydoc"
READING: dict[str, Any] = {"model__width": 96, "model__hidden": 256, "model__depth": 3, "training__samples": 2000}
READING |= {"training__epochs": 6, "training__batch": 16}
TUNING: dict[str, Any] = {"task": "chat", "task__template": "chatml", "tune": "lora"}
TUNING |= {"tune__rank": 8, "tune__alpha": 16.0, "training__samples": 0, "training__epochs": 6, "training__batch": 32}
TUNING |= {"tune__targets": [f"*.w_{name}" for name in ("q", "k", "v", "o", "gate", "up", "down")]}
TUNING |= {"optimiser__lr": 4e-3}


def main(
    reading: dict[str, Any] | None = None,
    tuning: dict[str, Any] | None = None,
    *,
    conversations: int = 3900,
    texts: int = 700,
    out: Path = Path("runs/dates"),
) -> tuple[float, float]:
    """The share of held-out dates that are answered exactly, and by how much the loss on plain text has risen."""
    read = glassformer.fit("llama-nano", PLAIN, **READING | (reading or {}), out=out / "read")
    file = out / "dates.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in [*pieces(texts), *talks(conversations)]))
    tuned = glassformer.fit(start=read.path, data=str(file), **TUNING | (tuning or {}), out=out / "tuned")

    exact = tuned.metrics["test_accuracy"]
    before, after = read.score().loss, replace(read, params=tuned.params).score().loss
    print(f"{100 * exact:.1f} % of the held-out dates exact; {tuned.metrics['learning']:,} parameters learned")
    print(f"loss on plain text: {before:.4f} before, {after:.4f} after: {after - before:+.4f}")
    question = "September 5, 2024"
    print(f"{question} -> {tuned.chat([{'role': 'user', 'content': question}], length=20).text}")
    write_adapter(out / "adapter", RunFolder(tuned.path))
    print(f'peft.PeftModel.from_pretrained(model, "{out / "adapter"}") loads the adapter')
    return exact, after - before


def talks(count: int) -> list[dict[str, Any]]:
    """Each day once, in the three ways that English writes dates; the last tenth of the file is for testing."""
    forms = forms_of("en", babel.dates)
    days = [write(day, forms[i % len(forms)], babel.dates) for i, day in enumerate(shuffled_days()[:count])]
    return [
        {
            "messages": [
                {"role": "user", "content": day.text.removeprefix("<en> ")},
                {"role": "assistant", "content": day.target},
            ]
        }
        for day in days
    ]


def pieces(count: int) -> list[dict[str, str]]:
    """Of the plain text, evenly spread, each as long as the context."""
    text = "\n".join(example.text for example in load_texts(PLAIN).train)
    return [{"text": text[i * len(text) // count :][:80]} for i in range(count)]


if __name__ == "__main__":
    main()
