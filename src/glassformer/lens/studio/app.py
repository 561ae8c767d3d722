"""What the studio answers: its page, runs, a sample, a preview, a whole view, more of a text, a run's training."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from glassformer.errors import GlassformerError
from glassformer.lens.studio import worker
from glassformer.lens.studio.document import document
from glassformer.lens.studio.events import EventStream
from glassformer.lens.studio.http_errors import HTTPError, TooLongError, busy
from glassformer.lens.studio.json_bytes import json_bytes
from glassformer.lens.studio.requests import Input, number_in, read_input, read_object, run_name, run_names
from glassformer.lens.studio.runs import Place, Runs, described, standing_of, times_of
from glassformer.lens.studio.watch import Watchers
from glassformer.lens.studio.what_if import MOST_AROUND, read_question
from glassformer.lens.studio.work_queue import WorkQueue
from glassformer.lens.studio.writing import KEYS, read_asked

UPLOAD_SECONDS = 30.0  # that a body may take to come in
AGAIN_SECONDS = 300.0  # after which a run that took too long is tried again; sooner where its files have changed


class Studio:
    """Two processes work for it: one reads what runs there are, and how far; the other one looks inside."""

    def __init__(self, folder: Path, reads: WorkQueue, looks: WorkQueue) -> None:
        self.looks = looks
        self.runs = Runs(folder, partial(reads.run, described))
        self.watchers = Watchers(partial(reads.run, standing_of), partial(self.look_at, worker.look))
        self.too_slow: dict[Path, tuple[Any, float]] = {}  # run -> its files then, and when
        self.listing: asyncio.Task[bytes] | None = None
        self.is_stopped = False
        self.waiting: set[asyncio.Future[Any]] = set()  # work that somebody waits for

    def app(self) -> Starlette:
        routes = [
            Route("/", self.page),
            Route("/api/runs", self.list_runs),
            Route("/api/sample", self.sample),
            Route("/api/preview", self.preview, methods=["POST"]),
            Route("/api/view", self.view, methods=["POST"]),
            Route("/api/write", self.write, methods=["POST"]),
            Route("/api/what_if", self.what_if, methods=["POST"]),
            Route("/api/watch", self.watch),
        ]
        handlers: dict[Any, Any] = {
            HTTPError: lambda _, error: failure(error.status, error.why, error.headers),
            GlassformerError: lambda _, error: failure(400, str(error)),
            HTTPException: http_failure,
            ClientDisconnect: lambda _, error: Response(status_code=400),
            Exception: lambda _, error: failure(500, "the studio made a mistake; its terminal says which"),
        }
        app = Starlette(routes=routes, exception_handlers=handlers, lifespan=self.lifespan)
        app.router.redirect_slashes = False
        return app

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        yield
        self.stop()

    def stop(self) -> None:
        """Streams end; what waits is given up."""
        self.is_stopped = True
        self.watchers.stop()
        for job in tuple(self.waiting):
            job.cancel()

    @cached_property
    def made_page(self) -> tuple[str, str]:
        return document()

    async def page(self, request: Request) -> Response:
        page, policy = self.made_page
        return HTMLResponse(page, headers={"Content-Security-Policy": policy})

    async def list_runs(self, request: Request) -> Response:
        """One list for all who ask meanwhile."""
        if self.listing is None or self.listing.done():
            self.listing = asyncio.create_task(self.listed())
        return answer(await asyncio.shield(self.listing))

    async def listed(self) -> bytes:
        return json_bytes(await self.runs.listed())

    async def place_of(self, name: str) -> Place:
        return await asyncio.to_thread(self.runs.place_of, name)

    async def sample(self, request: Request) -> Response:
        place = await self.place_of(run_name(request.query_params.get("run")))
        index = number_in(request.query_params.get("index"))
        return answer(await self.while_here(request, self.look_at(worker.sample, place, index)))

    async def preview(self, request: Request) -> Response:
        plain = read_object(await body_of(request), "runs", "input")
        names, given = run_names(plain.get("runs")), read_input(plain.get("input"))
        places = [await self.place_of(name) for name in names]
        views = asyncio.gather(*(self.preview_of(*both, given) for both in zip(places, names, strict=True)))
        return answer(b'{"views":[' + b",".join(await self.while_here(request, views)) + b"]}")

    async def preview_of(self, place: Place, name: str, given: Input) -> bytes:
        try:
            return await self.look_at(worker.preview, place, name, given)
        except TooLongError as error:
            return json_bytes({"error": error.why})

    async def view(self, request: Request) -> Response:
        plain = read_object(await body_of(request), "run", "input")
        name, given = run_name(plain.get("run")), read_input(plain.get("input"))
        place = await self.place_of(name)
        return answer(await self.while_here(request, self.look_at(worker.view, place, name, given)))

    async def write(self, request: Request) -> Response:
        plain = read_object(await body_of(request), *KEYS)
        place, asked = await self.place_of(run_name(plain.get("run"))), read_asked(plain)
        return answer(await self.while_here(request, self.look_at(worker.write, place, asked)))

    async def what_if(self, request: Request) -> Response:
        keys = ("run", "input", "changes", "table", "label", "place")
        plain = read_object(await body_of(request), *keys, most_around=MOST_AROUND)
        name, given, question = run_name(plain.get("run")), read_input(plain.get("input")), read_question(plain)
        place = await self.place_of(name)
        return answer(await self.while_here(request, self.look_at(worker.what_if, place, given, question)))

    async def watch(self, request: Request) -> Any:
        place = await self.place_of(run_name(request.query_params.get("run")))
        return EventStream(*await self.watchers.join(place))

    async def look_at(self, work: Callable[..., Any], place: Place, *given: Any) -> Any:
        """What the work gives. Others do not wait for a run that took too long before."""
        now = await asyncio.to_thread(times_of, place.path)
        files, since = self.too_slow.get(place.path, (None, 0.0))
        if files == now and time.monotonic() - since < AGAIN_SECONDS:
            raise TooLongError(self.looks.seconds)
        try:
            return await self.looks.run(work, place, *given)
        except TooLongError:
            self.too_slow[place.path] = now, time.monotonic()
            raise

    async def while_here(self, request: Request, work: Awaitable[Any]) -> Any:
        """The work's result; where the client goes away before its turn comes, it is not begun."""
        job = asyncio.ensure_future(work)
        if self.is_stopped:
            job.cancel()
        gone = asyncio.ensure_future(until_gone(request))
        self.waiting.add(job)
        try:
            await asyncio.wait({job, gone}, return_when=asyncio.FIRST_COMPLETED)
            if job.cancelled():
                raise busy("the studio is stopping")
            if not job.done():
                raise ClientDisconnect
            return job.result()
        finally:
            self.waiting.discard(job)
            job.cancel()
            gone.cancel()


async def body_of(request: Request) -> bytes:
    try:
        async with asyncio.timeout(UPLOAD_SECONDS):
            return await request.body()
    except TimeoutError:
        raise HTTPError(408, f"the request did not come in within {UPLOAD_SECONDS:.0f} s; send it again") from None


async def until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def answer(body: bytes) -> Response:
    return Response(body, media_type="application/json")


def failure(status: int, why: str, headers: dict[str, str] | None = None) -> Response:
    return Response(json_bytes({"error": why}), status, headers, "application/json")


def http_failure(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        return failure(405, f"{request.method} came, expected {(error.headers or {}).get('Allow', 'another method')}")
    return failure(error.status_code, f"nothing is here: {error.detail}; the page is at /, what it asks under /api")
