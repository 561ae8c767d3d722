"""Pack a run as weights that come with the package: recipe, weights and metrics, without a trace of this machine.

python scripts/pack_shipped.py RUN OUT      RUN: trained on all of MNIST; OUT: src/glassformer/shipped/NAME
"""

import dataclasses
import json
import sys
from pathlib import Path

from glassformer.data import DEFAULT
from glassformer.errors import CheckpointError
from glassformer.files import write_whole
from glassformer.predict.run import load
from glassformer.train.run_folder import RunFolder
from glassformer.train.settings import to_plain, to_toml


def pack(source: Path, out: Path) -> None:
    run = load(source)
    if not run.metrics:
        raise CheckpointError(f"{source}: training has not finished, there is no metrics.json; go on with --resume")
    # whoever installs the package has the bundled digits, not the folder this was trained on
    recipe = dataclasses.replace(run.recipe, data=DEFAULT)
    folder = RunFolder(out)
    write_whole(out / "recipe.toml", to_toml(to_plain(recipe)))
    folder.save_model(recipe, run.params, run.classes, run.metrics["best_epoch"])
    folder.save_metrics({**run.metrics, "run": out.name, "data": "mnist"})
    print(f"{out}: test accuracy {run.metrics['test_accuracy']:.4f} on all of MNIST, {json.dumps(sizes(out))} bytes")


def sizes(folder: Path) -> dict[str, int]:
    return {file.name: file.stat().st_size for file in sorted(folder.iterdir())}


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    pack(Path(sys.argv[1]), Path(sys.argv[2]))
