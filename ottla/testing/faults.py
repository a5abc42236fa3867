"""Things that go wrong on demand: errors, delays and silence, planted by a test and struck by the next requests.

Dispatch asks `Faults` about every request before its handler does. A test plants faults from its own thread, the broker
meets them on its event loop; names are checked when they are planted, so that a slip of the pen does not become a test
that tests nothing.
"""

import asyncio
import threading
from collections.abc import Awaitable, Iterable
from typing import Any

from ottla.broker.apis import SERVED
from ottla.broker.call import Call
from ottla.core.errors import ErrorCode, KafkaError
from ottla.protocol.apis import APIS, api_named, api_of

Outcome = KafkaError | float | Awaitable[None] | None
"""An error to answer with, something to wait for first, or nothing."""


class Faults:
    """What the next requests will meet. Every method may be called from any thread, at any time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures: dict[int, list[ErrorCode]] = {}
        self._delays: dict[int, float] = {}
        self._is_paused = False
        self._held: list[asyncio.Future[None]] = []

    # --- planting -----------------------------------------------------------------------------------------------

    def fail_next(self, api: str, error: str | int, *, times: int = 1) -> None:
        """Answer the next `times` requests of `api` with `error`, without doing what they ask."""
        if times < 1:
            raise ValueError(f"times is {times}, but a fault strikes at least once")
        key, code = _key_of(api), _code_of(error)
        with self._lock:
            self._failures.setdefault(key, []).extend([code] * times)

    def delay(self, api: str, seconds: float) -> None:
        """Let every request of `api` wait before it is served, until `delay(api, 0)` or `clear`."""
        if not 0 <= seconds <= 3600:
            raise ValueError(f"a delay is 0 to 3600 seconds, not {seconds}")
        key = _key_of(api)
        with self._lock:
            self._delays.pop(key, None)
            if seconds:
                self._delays[key] = seconds

    def pause(self) -> None:
        """Serve nobody: connections stay, and are accepted, but whatever they ask now is answered after `resume`."""
        with self._lock:
            self._is_paused = True

    def resume(self) -> None:
        """Serve what has waited, in its order, and all that follows."""
        with self._lock:
            self._is_paused = False
            held, self._held = self._held, []
        for future in held:
            _release(future)

    def clear(self) -> None:
        """Take everything back."""
        with self._lock:
            self._failures.clear()
            self._delays.clear()
        self.resume()

    @property
    def pending(self) -> dict[str, int]:
        """Failures that have not struck yet, by API. A test may want to see that none is left."""
        with self._lock:
            return {api_of(key).name: len(codes) for key, codes in self._failures.items()}

    # --- striking -----------------------------------------------------------------------------------------------

    def __bool__(self) -> bool:
        """Is anything planted? If not, requests are served as they are without any of this."""
        return bool(self._failures or self._delays or self._is_paused)

    def __call__(self, call: Call, request: Any) -> Outcome:
        with self._lock:
            if self._is_paused:
                held = asyncio.get_running_loop().create_future()
                self._held.append(held)
                return self._after(held, call.api_key)
            seconds = self._delays.get(call.api_key, 0)
            error = self._next_failure(call.api_key)
        if seconds:
            return _wait(seconds, error)
        return error

    async def _after(self, held: "asyncio.Future[None]", api_key: int) -> None:
        await held
        with self._lock:
            seconds, error = self._delays.get(api_key, 0), self._next_failure(api_key)
        await _wait(seconds, error)

    def _next_failure(self, api_key: int) -> KafkaError | None:
        codes = self._failures.get(api_key)
        if not codes:
            return None
        code = codes.pop(0)
        if not codes:
            del self._failures[api_key]
        return KafkaError.of(code, "a test wants it so")


async def _wait(seconds: float, error: KafkaError | None) -> None:
    await asyncio.sleep(seconds)
    if error is not None:
        raise error


def _release(future: "asyncio.Future[None]") -> None:
    def settle() -> None:
        if not future.done():
            future.set_result(None)

    try:
        future.get_loop().call_soon_threadsafe(settle)
    except RuntimeError:
        return  # its broker was closed, and the loop with it: nobody waits any more


def _key_of(name: str) -> int:
    api = api_named(name)
    if api is None:
        raise ValueError(f"no API is called {name!r}{_meant(name, (row.name for row in APIS.values()))}")
    if api.key not in SERVED:
        raise ValueError(f"this broker does not serve {api.name}, so no fault of it can strike")
    return api.key


def _code_of(error: str | int) -> ErrorCode:
    try:
        code = ErrorCode[error.upper()] if isinstance(error, str) else ErrorCode(error)
    except (KeyError, ValueError):
        names = (code.name for code in ErrorCode)
        raise ValueError(f"no error is called {error!r}{_meant(str(error).upper(), names)}") from None
    if code is ErrorCode.NONE:
        raise ValueError("NONE is not an error: there is nothing to fail with")
    return code


def _meant(name: str, known: Iterable[str]) -> str:
    import difflib  # here, because only a slip of the pen needs it

    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else ""
