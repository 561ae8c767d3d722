"""The error tree. Every message says where, what came, what was expected and what to do."""


class GlassformerError(Exception):
    """Anything a user can put right. `glassformer.cli` prints it without a traceback."""


class ShapeError(GlassformerError):
    """Sizes that do not fit together."""


class SettingError(GlassformerError):
    """A setting that is unknown, of the wrong type or out of range."""


class UnknownNameError(GlassformerError):
    """A dotted name that no parameter, cache field or tag carries."""


class FileError(GlassformerError):
    """A file that cannot be read or written."""


class DataError(GlassformerError):
    """A data set that is missing, damaged, or not what its own header, checksum or labels say."""


class CheckpointError(GlassformerError):
    """A run folder or a weights file that is damaged, foreign or from a newer release."""


class TrainingError(GlassformerError):
    """A training run that cannot go on."""


class EngineError(GlassformerError):
    """An engine cannot run this recipe, or cannot be built on this machine."""


class DeviceError(GlassformerError):
    """A device that does not answer, or not as it should."""


class ContractError(GlassformerError):
    """A layer that does not keep the contract of forward and backward."""


def at_least(where: str, least: int, **settings: int) -> None:
    """Refuse settings below `least`, naming them."""
    for name, value in settings.items():
        if value < least:
            raise SettingError(f"{where}: {name} is {value}, expected {least} or more")


def expect(where: str, what: str, came: int, expected: int, advice: str = "") -> None:
    """Refuse a size that does not match, naming the place, both numbers and the way out."""
    if came != expected:
        raise ShapeError(f"{where}: {what} is {came}, expected {expected}" + (f"; {advice}" if advice else ""))
