"""Plain JSON as bytes. What is not a number (a loss that overflowed) is null: JSON knows no NaN."""

import json
import math
from typing import Any


def json_bytes(plain: Any) -> bytes:
    try:
        text = json.dumps(plain, separators=(",", ":"), allow_nan=False)
    except ValueError:
        text = json.dumps(finite(plain), separators=(",", ":"), allow_nan=False)
    return text.encode()


def finite(plain: Any) -> Any:
    if isinstance(plain, dict):
        return {key: finite(value) for key, value in plain.items()}
    if isinstance(plain, list | tuple):
        return [finite(value) for value in plain]
    return None if isinstance(plain, float) and not math.isfinite(plain) else plain
