"""CIFAR-10 by name, in its binary version: records of one label byte and 3 x 32 x 32 bytes, red plane first.

Read from the archive as its makers packed it, or from the unpacked .bin files beside it, without unpacking to disk.
"""

import hashlib
import tarfile
import zlib
from pathlib import Path

import numpy as np

from glassformer.data.dataset import Dataset, Samples, make_dataset
from glassformer.data.download import cache_folder, download
from glassformer.errors import DataError
from glassformer.reading import read_bytes

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
ARCHIVE = "cifar-10-binary.tar.gz"
MD5 = "c32a1d4ab5d03f1284b67883e8d87530"
INSIDE = "cifar-10-batches-bin"
TRAIN = tuple(f"data_batch_{i}.bin" for i in range(1, 6))
TEST = ("test_batch.bin",)
RECORD = 1 + 3 * 32 * 32
LARGEST = 10_000 * RECORD  # every batch holds ten thousand


def load_cifar(name: str, cache: Path | None = None) -> Dataset:
    folder = cache_folder(cache) / name
    batches = read_unpacked(folder) or read_archive(find_archive(name, folder))
    train, test = (join([batches[file] for file in files]) for files in (TRAIN, TEST))
    return make_dataset(name, train, test, CLASSES)


def read_unpacked(folder: Path) -> dict[str, Samples] | None:
    """The .bin files where somebody has unpacked them, in the folder or in the archive's own."""
    for place in (folder, folder / INSIDE):
        paths = [place / file for file in (*TRAIN, *TEST)]
        if all(path.is_file() for path in paths):
            return {path.name: parse(read_bytes(path, LARGEST, DataError), str(path)) for path in paths}
    return None


def find_archive(name: str, folder: Path) -> Path:
    path = folder / ARCHIVE
    if not path.is_file():
        return download(name, ARCHIVE, folder, check_archive, needed=[ARCHIVE])
    check_archive(path)
    return path


def check_archive(path: Path) -> None:
    with path.open("rb") as file:
        came = hashlib.file_digest(file, "md5").hexdigest()
    if came != MD5:
        raise DataError(f"{path}: md5 {came}, expected {MD5}: not the published archive; delete it to fetch it")


def read_archive(path: Path) -> dict[str, Samples]:
    found = {}
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                file = archive.extractfile(member) if member.isfile() else None
                folder, _, name = member.name.rpartition("/")
                if file is not None and folder == INSIDE and name in (*TRAIN, *TEST):
                    found[name] = parse(file.read(LARGEST + 1), f"{path}: {name}")
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise DataError(f"{path}: the archive is damaged or cut short ({error}); delete it to fetch it") from None
    for name in (*TRAIN, *TEST):
        if name not in found:
            raise DataError(f"{path}: {INSIDE}/{name} is missing in it; delete it to fetch it")
    return found


def parse(content: bytes, where: str) -> Samples:
    if len(content) % RECORD or not 0 < len(content) <= LARGEST:
        raise DataError(
            f"{where}: {len(content):,} bytes, expected up to 10,000 records of {RECORD:,} bytes; "
            "it is damaged or cut short: fetch it again"
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, RECORD)
    planes = records[:, 1:].reshape(-1, 3, 32, 32)
    return Samples(images=planes.transpose(0, 2, 3, 1), labels=records[:, 0])


def join(batches: list[Samples]) -> Samples:
    images = np.ascontiguousarray(np.concatenate([batch.images for batch in batches]))
    return Samples(images=images, labels=np.concatenate([batch.labels for batch in batches]))


def in_cache(name: str, cache: Path | None = None) -> bool:
    folder = cache_folder(cache) / name
    places = (folder, folder / INSIDE)
    unpacked = any(all((place / file).is_file() for file in (*TRAIN, *TEST)) for place in places)
    return unpacked or (folder / ARCHIVE).is_file()
