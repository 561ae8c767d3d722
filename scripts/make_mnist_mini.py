"""Make the bundled digits: the first 8,000 training and the first 2,000 test images of MNIST, the same bytes each time.

python scripts/make_mnist_mini.py FOLDER [OUT]      FOLDER holds the four IDX files of MNIST
"""

import io
import sys
import zipfile
from pathlib import Path

import numpy as np

from glassformer.data.idx_folder import load_idx_folder
from glassformer.data.sources import BUNDLED

TRAIN, TEST = 8_000, 2_000
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # a zip file's first day: the time of making must not change the bytes


def make(folder: Path, out: Path) -> None:
    data = load_idx_folder("mnist", folder)
    arrays = {
        "train_images": data.train.images[:TRAIN, ..., 0],
        "train_labels": data.train.labels[:TRAIN].astype(np.uint8),
        "test_images": data.test.images[:TEST, ..., 0],
        "test_labels": data.test.labels[:TEST].astype(np.uint8),
    }
    # numpy.load reads every compression of zip; LZMA makes 1.38 MB, the deflate of savez_compressed 1.64 MB
    with zipfile.ZipFile(out, "w") as file:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, np.ascontiguousarray(array), allow_pickle=False)
            file.writestr(zipfile.ZipInfo(f"{name}.npy", LONG_AGO), content.getvalue(), zipfile.ZIP_LZMA)
    print(f"{out}: {out.stat().st_size:,} bytes")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    make(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) == 3 else BUNDLED)
