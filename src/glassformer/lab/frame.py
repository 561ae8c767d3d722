"""A study as a pandas frame: one row a run, to be grouped and drawn where one works."""

from pathlib import Path
from typing import TYPE_CHECKING

from glassformer.errors import FileError, SettingError
from glassformer.lab.analysis import analyse
from glassformer.lab.folder import plan_of
from glassformer.lab.record import Results
from glassformer.lab.run_rows import run_rows

if TYPE_CHECKING:
    import pandas


def frame(study: str | Path, *, all_settings: bool = False) -> "pandas.DataFrame":
    try:
        import pandas
    except ImportError:
        raise SettingError("lab.load: pandas is not installed; pip install 'glassformer[pandas]'") from None
    folder = Path(study)
    plan, results = plan_of(folder), Results(folder)
    if not results.records:
        raise FileError(f"{results.path}: no run is there yet; start the study: glassformer investigate {folder}")
    found = analyse(plan, results)
    rows = run_rows(found, results.records.values(), all_settings=all_settings)
    return pandas.DataFrame(rows)
