"""A request that is not served: with which status, and why, in words for who asked."""

from collections.abc import Mapping

BUSY_SECONDS = 1  # after which it is worth to ask again


class HTTPError(Exception):
    def __init__(self, status: int, why: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, why, headers)  # as it is made anew in another process
        self.status, self.why, self.headers = status, why, dict(headers or {})

    def __str__(self) -> str:
        return self.why


class TooLongError(HTTPError):
    """Work that was stopped."""

    def __init__(self, seconds: float) -> None:
        super().__init__(504, f"it took longer than {seconds:.0f} s and was stopped")


def busy(why: str) -> HTTPError:
    return HTTPError(503, f"{why}; ask again in a moment", {"Retry-After": str(BUSY_SECONDS)})
