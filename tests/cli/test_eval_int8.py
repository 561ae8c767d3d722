"""glassformer eval --int8: the device's own accuracy beside float's."""

import json
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from glassformer.cli.eval import eval_
from glassformer.errors import SettingError

app = typer.Typer()
app.command("eval")(eval_)


def invoke(*arguments: str) -> Any:
    return CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}).invoke(app, arguments)


def found(*arguments: str) -> dict[str, Any]:
    result = invoke("--int8", "--json", *arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout.splitlines()[-1])


def test_int8_is_compared_with_float() -> None:
    text, result = invoke("--int8").stdout, found()
    assert f"float {100 * result['float_accuracy']:.2f} %   int8 {100 * result['int8_accuracy']:.2f} %" in text
    assert f"answers changed: {result['changed']} of {result['samples']:,}" in text
    assert result["int8_accuracy"] > 0.95
    assert result["interval"][0] < 0 < result["interval"][1]
    assert result["stays_float"] == []


def test_layers_that_stay_float_have_less_noise() -> None:
    attention, result = "blocks.0.attn", found()
    kept = found("--keep-float", attention)
    assert kept["stays_float"] == [attention]
    noise, less = result["signal_to_noise_db"], kept["signal_to_noise_db"]
    assert less[f"{attention}.z"] > noise[f"{attention}.z"] + 6
    with pytest.raises(SettingError, match="no layer fits 'attn'"):
        raise invoke("--int8", "--keep-float", "attn").exception
