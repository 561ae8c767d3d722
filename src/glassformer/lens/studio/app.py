"""What the studio answers: its page, runs, a sample, a preview, a whole view, and a run's training as it happens."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from glassformer.errors import GlassformerError
from glassformer.lens.payload import encoded
from glassformer.lens.payload import view as whole_view
from glassformer.lens.studio.compile_limit import CompileLimit
from glassformer.lens.studio.document import document
from glassformer.lens.studio.events import EventStream
from glassformer.lens.studio.http_errors import HTTPError, busy
from glassformer.lens.studio.inputs import of_sample, trace_input_of, unpacked
from glassformer.lens.studio.json_bytes import json_bytes
from glassformer.lens.studio.preview import preview
from glassformer.lens.studio.requests import Input, number_in, read_input, read_object, run_name, run_names
from glassformer.lens.studio.run_cache import RunCache, newest
from glassformer.lens.studio.runs import Runs
from glassformer.lens.studio.samples import Sample, SampleSet
from glassformer.lens.studio.watch import Watchers
from glassformer.lens.studio.work_queue import WorkQueue

UPLOAD_SECONDS = 60.0  # that a body may take to come in


class Studio:
    def __init__(self, folder: Path) -> None:
        self.runs, self.run_cache, self.queue, self.compile_limit = (
            Runs(folder),
            RunCache(),
            WorkQueue(),
            CompileLimit(),
        )
        self.watchers = Watchers(self.queue, FirstSample(self.compile_limit))
        self.listing = asyncio.Lock()
        self.waiting: set[asyncio.Future[bytes]] = set()  # work that somebody waits for

    def app(self) -> Starlette:
        routes = [
            Route("/", self.page),
            Route("/api/runs", self.list_runs),
            Route("/api/sample", self.sample),
            Route("/api/preview", self.preview, methods=["POST"]),
            Route("/api/view", self.view, methods=["POST"]),
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
        await asyncio.to_thread(self.queue.stop)

    def stop(self) -> None:
        """Streams end; what waits is given up."""
        self.watchers.stop()
        for job in tuple(self.waiting):
            job.cancel()

    async def page(self, request: Request) -> Response:
        start = (await self.listed())["start"]
        page, policy = await asyncio.to_thread(document, {"start": start})
        return HTMLResponse(page, headers={"Content-Security-Policy": policy})

    async def list_runs(self, request: Request) -> Response:
        return answer(json_bytes(await self.listed()))

    async def listed(self) -> dict[str, Any]:
        async with self.listing:
            return await asyncio.to_thread(self.runs.listed)

    async def path_of(self, name: str) -> Path:
        return await asyncio.to_thread(self.runs.path_of, name)

    async def sample(self, request: Request) -> Response:
        path = await self.path_of(run_name(request.query_params.get("run")))
        index = number_in(request.query_params.get("index"))

        def work() -> bytes:
            samples = self.run_cache.get(path).samples
            return json_bytes({"name": f"test:{index}", "count": samples.count, **plain_sample(samples.at(index))})

        return answer(await self.worked(request, work))

    async def preview(self, request: Request) -> Response:
        plain = read_object(await body_of(request))
        names, given = run_names(plain.get("runs")), read_input(plain.get("input"))
        paths = [await self.path_of(name) for name in names]

        def work() -> bytes:
            ready = unpacked(given)
            return json_bytes({"views": [self.preview_of(*both, ready) for both in zip(names, paths, strict=True)]})

        return answer(await self.worked(request, work))

    def preview_of(self, name: str, path: Path, ready: Any) -> dict[str, Any]:
        try:
            loaded = self.run_cache.get(path)
            return {**preview(loaded.run, trace_input_of(loaded, ready), self.compile_limit), "run": name}
        except GlassformerError as error:
            return {"error": str(error)}

    async def view(self, request: Request) -> Response:
        plain = read_object(await body_of(request))
        name, given = run_name(plain.get("run")), read_input(plain.get("input"))
        return answer(await self.worked(request, partial(self.view_of, name, await self.path_of(name), given)))

    def view_of(self, name: str, path: Path, given: Input) -> bytes:
        loaded = self.run_cache.get(path)
        trace_input = trace_input_of(loaded, unpacked(given))
        self.compile_limit.note(loaded.run.model, trace_input.x)
        return json_bytes({**whole_view(loaded.run, trace_input), "run": name})

    async def watch(self, request: Request) -> Any:
        path = await self.path_of(run_name(request.query_params.get("run")))
        return EventStream(*await self.watchers.join(path))

    async def worked(self, request: Request, work: Callable[[], bytes]) -> bytes:
        """The work's result; where the client goes away before its turn comes, it is not begun."""
        job = asyncio.ensure_future(self.queue.run(work))
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


class FirstSample:
    """What a run in training makes of its first test sample; the samples are read once for each run."""

    def __init__(self, compile_limit: CompileLimit) -> None:
        self.compile_limit = compile_limit
        self.first: dict[Path, Sample] = {}

    def __call__(self, path: Path) -> tuple[int, dict[str, Any]]:
        epoch, run = newest(path)
        if path not in self.first:
            self.first[path] = SampleSet(run).at(0)
        return epoch, preview(run, of_sample(run, 0, self.first[path]), self.compile_limit)


async def body_of(request: Request) -> bytes:
    try:
        async with asyncio.timeout(UPLOAD_SECONDS):
            return await request.body()
    except TimeoutError:
        raise HTTPError(408, f"the request did not come in within {UPLOAD_SECONDS:.0f} s; send it again") from None


async def until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def plain_sample(sample: Sample) -> dict[str, Any]:
    if sample.image is None:
        return {"text": sample.text, "target": sample.target}
    return {"image": encoded(sample.image), "label": sample.label}


def answer(body: bytes) -> Response:
    return Response(body, media_type="application/json")


def failure(status: int, why: str, headers: dict[str, str] | None = None) -> Response:
    return Response(json_bytes({"error": why}), status, headers, "application/json")


def http_failure(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        return failure(405, f"{request.method} came, expected {(error.headers or {}).get('Allow', 'another method')}")
    return failure(error.status_code, f"nothing is here: {error.detail}; the page is at /, what it asks under /api")
