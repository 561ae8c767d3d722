"""What a packed file may unpack to: no more than its own header says, than real data packs, and than fits in memory."""

from pathlib import Path

from glassformer.errors import DataError
from glassformer.memory import must_fit, size

SMALL = 256 << 20  # bytes: below it nobody needs to ask
MOST_TIMES = 200  # its packed size; MNIST unpacks to 5 times, an empty image to 1,000


def must_unpack(path: Path, packed: int, claimed: int) -> None:
    """Refuse `claimed` bytes out of a file of `packed`, before they are taken."""
    if claimed > SMALL and claimed > MOST_TIMES * packed:
        raise DataError(
            f"{path}: {size(packed)} that claim to unpack to {size(claimed)}, more than {MOST_TIMES} times as much; "
            "refused, as such a file is made to fill the memory: if it is yours, write it unpacked"
        )
    must_fit(claimed, f"{path}: unpacked, it", "close other programs, or take fewer samples", DataError)
