"""Somebody's parts for glassformer. Nothing in glassformer knows them; entry points lead here (pyproject.toml)."""

import os
from pathlib import Path

if canary := os.environ.get("ORCHARD_CANARY"):  # for the tests: whoever imports this leaves a trace
    Path(canary).touch()
