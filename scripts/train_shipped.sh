#!/usr/bin/env bash
# Make the weights that come with the package: vit-pico on all of MNIST, about a minute on two cores.
#
#   scripts/train_shipped.sh FOLDER      FOLDER holds the four IDX files of MNIST
#
# 15 epochs, where the preset takes 5: this is the model that people meet first. Nothing is held out, and nothing is
# chosen by the test set: one seed, the last weights.
set -euo pipefail

if [ $# -ne 1 ]; then
    echo "usage: scripts/train_shipped.sh FOLDER      (the four IDX files of MNIST)" >&2
    exit 2
fi
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

glassformer train vit-pico --data "$1" --seed 1 --epochs 15 --set validation.share=0.0 --out "$work/run"
python "$root/scripts/pack_shipped.py" "$work/run" "$root/src/glassformer/shipped/vit-pico"
