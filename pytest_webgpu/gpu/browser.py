"""Runs jobs in Chrome, Firefox, Safari, or any browser pointed at a URL: one page, one server, one protocol."""

from __future__ import annotations

import dataclasses
import queue
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Literal

from pytest_webgpu.gpu.greeting import device_info
from pytest_webgpu.gpu.job import (
    Command,
    CompileError,
    DeadlineExceeded,
    DeviceInfo,
    DeviceLost,
    GpuError,
    Job,
    NoAdapter,
    Result,
    RunnerDied,
    WriteBuffer,
)
from pytest_webgpu.gpu.launch import find_browser, open_safari, start_browser
from pytest_webgpu.gpu.limits import LimitsAsked, resolve
from pytest_webgpu.gpu.named import Named
from pytest_webgpu.gpu.native import FEATURES
from pytest_webgpu.gpu.server import Gone, Message, Server, Session
from pytest_webgpu.gpu.shader import from_text
from pytest_webgpu.gpu.supervisor import Supervised
from pytest_webgpu.gpu.wire import encode

DEADLINE = 60.0  # seconds a job, unless `run` says otherwise
START_DEADLINE = 60.0
VISIT_DEADLINE = 600.0  # for somebody to point a browser at the URL
LOG_LINES = 5  # of what a browser printed before it ended
PART_BYTES = 64 << 20  # a job with more than this in blobs goes in several messages
Numbered = list[tuple[int, Command]]  # commands with their index in the job
Name = Literal["chrome", "firefox", "safari", "url"]


class Deadline:
    """`seconds` from now."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._until = time.monotonic() + seconds

    @property
    def left(self) -> float:
        return max(0.0, self._until - time.monotonic())


class BrowserRunner:
    """Runs jobs on a browser's page. The browser is started at once and again after each hang, crash or lost device.

    `browser`: "chrome" and "firefox" are started headless with a profile of their own, and killed with their whole
    tree; "safari" is opened on macOS; "url" hands the URL to `announce` and serves the browser that comes. A job that
    outlasts its deadline raises DeadlineExceeded, a browser or page that ends RunnerDied, a lost device DeviceLost
    with its reason: each time `generation` grows, and all that was made by name is gone.
    """

    def __init__(
        self,
        browser: Name = "chrome",
        limits: LimitsAsked = None,
        without: Collection[str] = (),
        program: str | None = None,
        port: int = 0,
        announce: Callable[[str], None] = print,
    ) -> None:
        self.name, self._asked, self._without, self._announce = browser, limits, without, announce
        self._supervises = browser in ("chrome", "firefox")
        self._program = (program or find_browser(browser)) if self._supervises else ""
        self.generation = 0
        self.notes: list[str] = []
        self.process: Supervised | None = None
        self._session: Session | None = None
        self._named: Named
        self._port = port
        self._server = Server(port)
        try:
            self._info = self._start()
        except BaseException:
            self.close()
            raise

    @property
    def info(self) -> DeviceInfo:
        return self._info

    def run(self, job: Job, deadline: float | None = None) -> Result:
        """Runs the commands in order; the first that fails raises its GpuError. `deadline`: seconds, 60 unless said."""
        if self._session is None:
            self._info = self._start()
        until = Deadline(DEADLINE if deadline is None else deadline)
        named, checked, refused = self._named.copy(), [], None
        for index, command in enumerate(job.commands):
            try:
                checked.append((index, named.apply(index, command)))
            except GpuError as error:
                error.command, refused = index, error
                break
        result = Result([None] * len(job.commands))
        try:
            for part in _parts(checked):
                self._run_part(part, named, until, result)
        except GpuError as error:
            for index, command in enumerate(job.commands[: error.command or 0]):
                self._named.apply(index, command)
            raise
        self._named = named
        if refused is not None:
            raise refused
        return result

    def close(self) -> None:
        """Ends the browser. Neither process nor profile nor port is there afterwards."""
        self._end()
        self._server.close()

    @property
    def port(self) -> int:
        return self._server.port

    def _start(self) -> DeviceInfo:
        if not self._server.serves:
            self._server = Server(self._port)
        session = self._server.open(again=self.generation > 0 and not self._supervises)
        if self._supervises:
            self.process = start_browser(self.name, self._program, self._server.url, session.gone)
        elif self.name == "safari" and self.generation == 0:
            open_safari(self._server.url)
        elif self.generation == 0:
            self._announce(self._server.url)
        self._session = session
        until = Deadline(START_DEADLINE if self._supervises else VISIT_DEADLINE)
        what = f"The start of {self._program}" if self._supervises else f"The wait for a browser at {self._server.url}"
        self._hello = self._receive(until, what, "hello").data["hello"]
        if "lack" in self._hello:
            self._end()
            raise NoAdapter(self._hello["lack"])
        return self._open(until)

    def open(self, limits: LimitsAsked, without: Collection[str]) -> None:
        """A new device on the same page, with these limits and features: all that was made by name is gone."""
        self._asked, self._without = limits, without
        self.generation += 1
        self._info = self._start() if self._session is None else self._open(Deadline(START_DEADLINE))

    def _open(self, until: Deadline) -> DeviceInfo:
        assert self._session is not None
        hello = self._hello
        limits, self.notes = resolve(hello["limits"], self._asked)
        features = [f for f in FEATURES if f in hello["features"] and f not in self._without]
        self._session.send({"open": {"limits": limits, "features": features}})
        opened = self._receive(until, "Opening the device", "limits").data
        if "error" in opened:
            self._end()
            raise _error(opened["error"])
        info = device_info(hello, features, {name: opened["limits"][name] for name in limits})
        self._named = Named(info.implementation, info.features, info.limits)
        return info

    def _run_part(self, part: Numbered, named: Named, until: Deadline, result: Result) -> None:
        assert self._session is not None
        self._session.send(*encode([command for _, command in part]))
        answer = self._receive(until, "The job", "values")
        if error := answer.data.get("error"):
            raise self._failure(error, part, named)
        for (index, _), value in zip(part, answer.data["values"], strict=True):
            if value is not None and "blob" in value:
                value["blob"] += len(result.blobs)
            result.values[index] = value
        result.blobs.extend(answer.blobs)
        for name, count in answer.data["counts"].items():
            result.counts[name] = result.counts.get(name, 0) + count

    def _failure(self, told: dict[str, Any], part: Numbered, named: Named) -> GpuError:
        error = _error(told)
        if error.command is not None:
            error.command = part[error.command][0]
        if isinstance(error, CompileError) and error.command is not None:
            source = named.sources[error.command]
            error.details["code"] = source.given
            if error.details["line"] == 1 and error.details["column"]:
                error.details["column"] = max(1, error.details["column"] - source.shift)
        if isinstance(error, DeviceLost):
            self._end()
        return error

    def _receive(self, until: Deadline, what: str, key: str) -> Message:
        """The page's next message, with an error or with `key` in it. Whatever else happens ends the session."""
        assert self._session is not None
        try:
            while True:
                try:
                    answer = self._session.inbox.get(timeout=min(1.0, until.left))
                    break
                except queue.Empty:
                    if not until.left:
                        raise self._expired(until, what) from None
            if isinstance(answer, Message):
                if key in answer.data or "error" in answer.data:
                    return answer
                answer = Gone("the page sent what is no answer")
        except BaseException:  # an interrupt: an answer may be on its way to the wrong question
            if self._session is not None:
                self._end()
            raise
        process = self.process
        self._end()
        reason, said = answer.reason, _last_words(process)
        if process is not None and process.status is not None:
            reason += f"; the browser ended with status {process.status}"
        raise RunnerDied(f"{what} lost its browser: {reason}.{_below(said)}", reason=reason, log=said)

    def _expired(self, until: Deadline, what: str) -> DeadlineExceeded:
        process, came = self.process, self._session is not None and self._session.page is not None
        self._end()
        said = _last_words(process)
        done = "the browser was killed" if self._supervises else "the page is to start afresh" if came else "none came"
        message = f"{what} did not end in {round(until.seconds, 1):g} s: {done}.{'' if came else _below(said)}"
        return DeadlineExceeded(message, seconds=until.seconds, log=said)

    def _end(self) -> None:
        self.generation += 1
        self._session = None
        if self.process is not None:
            self.process.stop()
            self.process = None


def _last_words(process: Supervised | None) -> list[str]:
    """The end of what a browser printed, once it has ended."""
    return [] if process is None else process.log.splitlines()[-LOG_LINES:]


def _below(lines: Sequence[str]) -> str:
    return "".join(f"\n  {line}" for line in lines)


def _parts(commands: Sequence[tuple[int, Command]]) -> Iterator[Numbered]:
    """The commands in messages of some PART_BYTES of blobs each; a larger write is cut into several."""
    part: Numbered = []
    size = 0
    for index, command in commands:
        for piece in _pieces(command):
            more = memoryview(piece.data).nbytes if isinstance(piece, WriteBuffer) else 0
            if part and size + more > PART_BYTES:
                yield part
                part, size = [], 0
            part.append((index, piece))
            size += more
    if part:
        yield part


def _pieces(command: Command) -> Iterator[Command]:
    if not isinstance(command, WriteBuffer) or memoryview(command.data).nbytes <= PART_BYTES:
        yield command
        return
    view = memoryview(command.data).cast("B")
    for start in range(0, view.nbytes, PART_BYTES):
        yield dataclasses.replace(command, data=view[start : start + PART_BYTES], offset=command.offset + start)


def _error(told: dict[str, Any]) -> GpuError:
    """The page's error as the job protocol's: by name where the page made it, else by the browser's class and text."""
    made = {"CompileError": CompileError, "DeviceLost": DeviceLost}.get(told["name"])
    error = made(told["message"], **told["details"]) if made else from_text(told["name"], told["message"])
    error.command = told["command"]
    return error
