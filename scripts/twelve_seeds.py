"""What the first twelve seeds of studies/attention-accuracy say by themselves: twelve-seeds.json in its folder.

python scripts/twelve_seeds.py [STUDY]

The study was reported on with twelve seeds, and grew. Its own runs are analysed again as the plan `attention-accuracy`
has it, so that its page can tell which words have changed, and by which numbers.
"""

import json
import sys
from pathlib import Path
from typing import Any

from glassformer.lab.analysis import analyse
from glassformer.lab.plan import load_plan
from glassformer.lab.record import Results
from glassformer.lab.study import Finding

FOLDER = Path(__file__).parents[1] / "studies/attention-accuracy"
FILE = "twelve-seeds.json"


def before(folder: Path) -> dict[str, Any]:
    study = analyse(load_plan("attention-accuracy"), Results(folder))
    return {
        "seeds": len(study.plan.seeds),
        "level": study.look.level,
        "runs": sum(study.machines.values()),
        "best": study.best.cell.title if study.best else None,
        "findings": [plain(one) for one in study.findings],
    }


def plain(one: Finding) -> dict[str, Any]:
    effect = one.effect and {name: getattr(one.effect, name) for name in ("mean", "low", "high", "p_holm", "p_same")}
    compared = one.comparison
    return {
        "kind": compared.kind,
        "factors": list(compared.factors),
        "group": compared.group,
        "against": compared.without.key,
        "word": one.word,
        "unit": one.unit,
        "effect": effect,
        "share_of_gap": one.share,
    }


def written(found: dict[str, Any]) -> str:
    """One finding a line."""
    head = {name: value for name, value in found.items() if name != "findings"}
    lines = ",\n".join("  " + json.dumps(one, ensure_ascii=False) for one in found["findings"])
    return f'{json.dumps(head, ensure_ascii=False)[:-1]},\n"findings": [\n{lines}\n]}}\n'


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    (folder / FILE).write_text(written(before(folder)))
    print(folder / FILE)
