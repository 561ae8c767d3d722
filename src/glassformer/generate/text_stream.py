"""From tokens to text, piece by piece, such that what was told once never has to be taken back.

WholeCharacters   a byte pair may end in the middle of a character: told once the character is whole
UntilStop         what may turn out to be the beginning of a stop string is held back until it is known
"""

from collections.abc import Sequence

from glassformer.data.tokeniser import Tokeniser

HALF = "\ufffd"  # how decoding shows bytes that are no whole character


class WholeCharacters:
    """Decodes a few tokens at a time: each piece together with the one before it, since some tokenisers write the
    first word of a text without the space that stands before any other.
    """

    def __init__(self, tokeniser: Tokeniser, before: Sequence[int] = ()) -> None:
        self.tokeniser, self.ids = tokeniser, list(before)
        self.piece, self.told = 0, len(self.ids)  # the last piece told is ids[piece:told]

    def feed(self, token: int) -> str:
        """What the token adds; nothing while a character lacks some of its bytes."""
        self.ids.append(token)
        told = self.tokeniser.decode(self.ids[self.piece : self.told])
        now = self.tokeniser.decode(self.ids[self.piece :])
        if now.endswith(HALF) or len(now) <= len(told):
            return ""
        self.piece, self.told = self.told, len(self.ids)
        return now[len(told) :]


class UntilStop:
    """The text ends before the first stop string that becomes complete."""

    def __init__(self, stop: Sequence[str]) -> None:
        self.stop, self.held, self.found = stop, "", False

    def feed(self, text: str) -> str:
        """As much as is certain to belong to the text."""
        self.held += text
        complete = [(at + len(word), at) for word in self.stop if (at := self.held.find(word)) >= 0]
        self.found = bool(complete)
        certain = min(complete)[1] if complete else len(self.held) - self.uncertain()
        text, self.held = self.held[:certain], "" if complete else self.held[certain:]
        return text

    def uncertain(self) -> int:
        """How many of the last characters may be the beginning of a stop string."""
        begun = (n for word in self.stop for n in range(1, len(word)) if self.held.endswith(word[:n]))
        return max(begun, default=0)

    def rest(self) -> str:
        """What was held back, when nothing follows any more."""
        text, self.held = self.held, ""
        return text
