"""MNIST and Fashion-MNIST by name: four IDX files from the cache folder, fetched where they are missing."""

import hashlib
from pathlib import Path

import numpy as np

from glassformer.data.dataset import Dataset
from glassformer.data.download import cache_folder, download
from glassformer.data.idx import header, read_idx
from glassformer.data.idx_folder import PARTS, assemble, file_name, find_part
from glassformer.errors import DataError
from glassformer.reading import open_plain, size_of

DIGITS = tuple("0123456789")
CLOTHES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
CLASSES = {"mnist": DIGITS, "fashion-mnist": CLOTHES}

# sha256: of the unpacked content. md5: of the .gz as its makers packed it, with its length, as the makers of
# Fashion-MNIST publish no sha256. Two files of one md5 can be made, but nobody knows how to make one of a given md5;
# and all mirrors speak https.
CHECKSUMS = {
    "mnist": {
        "train-images": "sha256:ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "train-labels": "sha256:65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "t10k-images": "sha256:0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "t10k-labels": "sha256:ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    },
    "fashion-mnist": {
        "train-images": "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d of 26421880 bytes",
        "train-labels": "md5:25c81989df183df01b3e8a0aad5dffbe of 29515 bytes",
        "t10k-images": "md5:bef4ecab320f06d8554ea6380940ec79 of 4422102 bytes",
        "t10k-labels": "md5:bb300cfdad3c16e7a12a480ee83cd310 of 5148 bytes",
    },
}


def load_family(name: str, cache: Path | None = None) -> Dataset:
    folder = cache_folder(cache) / name
    return assemble(name, lambda part: read_part(name, part, folder), CLASSES[name])


def read_part(name: str, part: str, folder: Path) -> np.ndarray:
    path = find_part(folder, part)
    if path is None:
        needed = [f"{file_name(each)}.gz" for each in PARTS]
        path = download(
            name, f"{file_name(part)}.gz", folder, lambda file: read_checked(file, name, part), needed=needed
        )
    return read_checked(path, name, part)


def read_checked(path: Path, name: str, part: str) -> np.ndarray:
    array = read_idx(path, PARTS[part])
    algorithm, _, expected = CHECKSUMS[name][part].partition(":")
    came = content_sha256(array) if algorithm == "sha256" else packed_md5(path)
    if came not in (None, expected):
        raise DataError(
            f"{path}: {algorithm} {came}, expected {expected}: not the published {name}; delete it to fetch it, "
            "or give its folder by path to use it as it is"
        )
    return array


def content_sha256(array: np.ndarray) -> str:
    """Of the unpacked file, which is the header that its array implies and then the array: `read_idx` sees to it."""
    digest = hashlib.sha256(header(array))
    digest.update(array.data)
    return digest.hexdigest()


def packed_md5(path: Path) -> str | None:
    """Nothing for an unpacked file: its checksum is not published."""
    with open_plain(path, DataError) as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        return f"{hashlib.file_digest(file, 'md5').hexdigest()} of {size_of(file)} bytes" if packed else None


def in_cache(name: str, cache: Path | None = None) -> bool:
    return all(find_part(cache_folder(cache) / name, part) for part in PARTS)
