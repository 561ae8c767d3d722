"""A logit bias as people write it: by the id of a token, or by its text.

17, "17"      the token with this id, as in a request to OpenAI
" the"        the token that is this text; a text of several tokens is refused
"\\"17\\""      a text in double quotes, as JSON writes it: for digits, line breaks, spaces at the end

The bias is added to the token's score before anything else: -5 makes it rarer, -inf forbids it.
"""

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from glassformer.data.tokeniser import Tokeniser
from glassformer.errors import SettingError

NUMBER = re.compile("[0-9]{1,18}")
SHOWN = 6  # tokens of a text in a message


def by_id(tokeniser: Tokeniser, given: Mapping[Any, Any]) -> dict[int, float]:
    """Ids instead of texts; what is given for one token in two ways adds up."""
    found: dict[int, float] = {}
    for token, bias in given.items():
        bias = -math.inf if bias == "-inf" else bias  # JSON has no such number
        if isinstance(bias, bool) or not isinstance(bias, int | float) or not bias < math.inf:  # NaN is not less
            raise SettingError(
                f"logit bias: {bias!r:.40} came for {token!r:.40}, expected a number, such as -5, or -inf"
            )
        number = token_of(tokeniser, token)
        found[number] = found.get(number, 0.0) + float(bias)
    if len(found) >= tokeniser.size and all(bias == -math.inf for bias in found.values()):
        raise SettingError(f"logit bias: all {tokeniser.size} tokens are forbidden, and none is left to write")
    return found


def token_of(tokeniser: Tokeniser, token: int | str) -> int:
    if isinstance(token, int) or NUMBER.fullmatch(token):
        number = int(token)
        if not 0 <= number < tokeniser.size:
            raise SettingError(f"logit bias: token {number} came, the tokeniser has {tokeniser.size:,}, from 0 on")
        return number
    text = unquoted(token)
    known = tokeniser.inner.token_to_id(text)  # <end> and its like
    ids = tokeniser.encode(text) if known is None else [known]
    if len(ids) != 1 or (known is None and tokeniser.unknown_in(text)):
        made_of = ", ".join(f"{one} = {tokeniser.symbol(one)!r}" for one in ids[:SHOWN]) or "nothing"
        raise SettingError(
            f"logit bias: {text!r:.60} is no token of the model, expected one, or the id of one; "
            f"it is made of {made_of}{' …' * (len(ids) > SHOWN)}"
        )
    return ids[0]


def unquoted(token: str) -> str:
    if len(token) < 2 or not token.startswith('"'):
        return token
    try:
        return json.loads(token)
    except ValueError:
        raise SettingError(f"logit bias: {token:.60} came, expected a text in quotes as JSON writes it") from None


def split(text: str) -> tuple[str, float]:
    """TOKEN=BIAS.

    >>> split("==-2.5")
    ('=', -2.5)
    """
    token, _, bias = text.rpartition("=")
    try:
        if token:
            return token, float(bias)
    except ValueError:
        pass
    raise SettingError(f"logit bias: {text!r:.60} came, expected TOKEN=BIAS, such as 17=-5 or ' the=-inf'")
