"""A device's own numbers beside the host's: logits, attention weights, loss, gradients, and where they differ most."""

from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

import numpy as np

from glassformer.errors import DeviceError
from glassformer.lens.trace import Trace
from glassformer.names import gradient_name


class DeviceNumbers(NamedTuple):
    """What a device sent of one input."""

    name: str  # of its model
    source: str  # the command or the port
    logits: np.ndarray
    attention: dict[str, dict[tuple[int, int], np.ndarray]]  # by name, head and query
    loss: float | None
    gradients: dict[str, np.ndarray]  # by the parameter's name
    without: str  # why there are no loss and gradients


class Compared(NamedTuple):
    """One value on both sides."""

    name: str  # of the tensor in the trace
    kind: str  # logits, attention, loss or gradient
    device: np.ndarray
    host: np.ndarray
    came: np.ndarray  # which of the numbers the device computes: a query that nobody reads is left out

    @property
    def differences(self) -> np.ndarray:
        """Absolute; infinite where the device's number is none, but the host's is."""
        with np.errstate(invalid="ignore"):
            found = np.abs(self.device.astype(np.float64) - self.host)
        same = (self.device == self.host) | (np.isnan(self.device) & np.isnan(self.host))
        found = np.where(same, 0.0, np.where(np.isnan(found), np.inf, found))
        return np.where(self.came, found, -1.0)

    @property
    def scale(self) -> float:
        """The largest of the host's numbers that are compared."""
        return float(np.abs(self.host[self.came]).max())

    def summary(self, scale: float) -> dict[str, Any]:
        """The largest difference, where it is, and both numbers there. What is not finite is None, as in JSON."""
        differences = self.differences
        at = int(differences.argmax())
        place = np.unravel_index(at, differences.shape)
        return {
            "name": self.name,
            "kind": self.kind,
            "numbers": int(self.came.sum()),
            "of": int(self.came.size),
            "largest": finite(differences[place]),
            "scale": finite(scale),
            "at": at,
            "where": [int(i) for i in place],
            "device": finite(self.device[place]),
            "host": finite(self.host[place]),
        }


def finite(number: Any) -> float | None:
    return float(number) if np.isfinite(number) else None


def compare(traced: Trace, numbers: DeviceNumbers) -> list[Compared]:
    """Every value that the device sent; one that the model does not have is an error."""
    logits = np.asarray(traced.logits)[0]
    same = (name for name, value in reversed(traced.values.items()) if np.array_equal(value, traced.logits))
    found = [whole(next(same, "logits"), "logits", numbers.logits, logits)]
    found += [attention(name, rows, traced) for name, rows in numbers.attention.items()]
    if numbers.loss is not None:
        found.append(whole("loss", "loss", np.float32(numbers.loss), np.float32(traced.loss)))
    for name, gradient in numbers.gradients.items():
        if name not in traced.param_gradients:
            raise DeviceError(f"device: it sent the gradient of {name!r}, which this model does not have")
        found.append(whole(gradient_name(name), "gradient", gradient, traced.param_gradients[name]))
    return found


def whole(name: str, kind: str, device: Any, host: Any) -> Compared:
    device, host = np.asarray(device), np.asarray(host)
    if device.size != host.size:
        raise DeviceError(f"device: {kind} {name}: {device.size} numbers came, expected {host.size}")
    return Compared(name, kind, device.reshape(host.shape), host, np.ones(host.shape, bool))


def attention(name: str, rows: dict[tuple[int, int], np.ndarray], traced: Trace) -> Compared:
    if name not in traced.values or np.ndim(traced.values[name]) != 4:
        raise DeviceError(f"device: it sent attention {name!r}, which this model does not have")
    host = np.asarray(traced.values[name])[0]
    device, came = np.zeros_like(host), np.zeros(host.shape, bool)
    for (head, query), row in rows.items():
        if head >= host.shape[0] or query >= host.shape[1] or row.size != host.shape[2]:
            raise DeviceError(
                f"device: attention {name}: head {head}, query {query}, {row.size} keys came, the model has "
                f"{' x '.join(map(str, host.shape))}"
            )
        device[head, query], came[head, query] = row, True
    return Compared(name, "attention", device, host, came)


def device_view(
    traced: Trace, numbers: DeviceNumbers, encoded: Callable[[np.ndarray], str], rounded: Collection[str] = ()
) -> dict[str, Any]:
    """What a page shows of it. `rounded`: tensors that the page has not to the last bit: differences are written."""
    compared = compare(traced, numbers)
    scales: dict[str, float] = {}  # of gradients by layer: that of a bias of keys is zero, and its rounding is not
    for one in compared:
        scales[scope(one)] = max(scales.get(scope(one), 0.0), one.scale)
    return {
        "name": numbers.name,
        "source": numbers.source,
        "without": numbers.without,
        "compared": [one.summary(scales[scope(one)]) for one in compared],
        "values": {one.name: dict(stored(one, encoded, one.name in rounded)) for one in compared},
    }


def scope(one: Compared) -> str:
    """What its differences are measured by: itself; of a gradient, all of its layer."""
    return f"gradients of {one.name.rpartition('.')[0]}" if one.kind == "gradient" else one.name


def stored(one: Compared, encoded: Callable[[np.ndarray], str], is_rounded: bool) -> Iterator[tuple[str, str]]:
    yield "data", encoded(np.ascontiguousarray(one.device, "<f4"))
    if is_rounded:
        with np.errstate(invalid="ignore"):
            yield "apart", encoded((one.device.astype(np.float64) - one.host).astype("<f4"))
    if not one.came.all():
        yield "came", encoded(np.packbits(one.came.ravel()))
