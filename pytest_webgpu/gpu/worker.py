"""A native runner in a fresh interpreter, which may hang or die alone: `python -m pytest_webgpu.gpu.worker`.

Messages on its standard input and output are 8 bytes (little endian) of length and what `job.pack` makes.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import psutil

from pytest_webgpu.gpu.adapters import Adapter
from pytest_webgpu.gpu.job import (
    ERRORS,
    Bytes,
    DeadlineExceeded,
    DeviceInfo,
    DeviceLost,
    GpuError,
    Job,
    Result,
    RunnerDied,
)
from pytest_webgpu.gpu.limits import LimitsAsked
from pytest_webgpu.gpu.wire import decode, encode, pack, unpack

DEADLINE = 60.0  # seconds a job, unless `run` says otherwise
START_DEADLINE = 60.0
STDERR_LINES = 50
REUSED_BYTES = 256 << 20


def widen(stream: IO[bytes]) -> None:
    """A pipe of a megabyte in place of 64 KiB, where the system allows it."""
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import fcntl

        fcntl.fcntl(stream, fcntl.F_SETPIPE_SZ, 1 << 20)


def send(stream: IO[bytes], data: Mapping[str, Any], blobs: Sequence[Bytes] = ()) -> None:
    pieces = pack(data, blobs)
    total = sum(memoryview(p).nbytes for p in pieces)
    stream.write(total.to_bytes(8, "little"))
    for piece in pieces:
        stream.write(piece)
    stream.flush()


class Inbox:
    """Reads messages. Their blobs are views of one buffer, which messages of up to `reuse` bytes share: the pages of
    a fresh one cost more than the copy does. Such blobs last until the next message."""

    def __init__(self, stream: IO[bytes], reuse: int = 0):
        self._stream, self._reuse, self._room = stream, reuse, bytearray()

    def receive(self) -> tuple[dict[str, Any], list[memoryview]] | None:
        """The next message, or None where the stream ended."""
        head = self._stream.read(8)
        if len(head) < 8:
            return None
        size = int.from_bytes(head, "little")
        room = self._room if size <= len(self._room) else bytearray(size)
        if len(room) <= self._reuse:
            self._room = room
        message, at = memoryview(room)[:size], 0
        while at < size:
            count = self._stream.readinto(message[at:])  # type: ignore[attr-defined]
            if not count:
                return None
            at += count
        return unpack(message)


class WorkerRunner:
    """Runs jobs in a worker process, started with the first job and again after each hang or crash.

    A job that outlasts its deadline is killed with the whole process tree (DeadlineExceeded); a worker that ends by
    itself raises RunnerDied; one whose device is lost is ended. Each time `generation` grows: all that was made by
    name is gone.
    """

    def __init__(self, adapter: Adapter, limits: LimitsAsked = None, without: Collection[str] = ()):
        self._hello = {
            "adapter": dataclasses.asdict(adapter),
            "limits": dict(limits) if isinstance(limits, Mapping) else limits,
            "without": sorted(without),
        }
        self.generation = 0
        self.notes: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: deque[str] = deque(maxlen=STDERR_LINES)
        self._info = self._start()
        atexit.register(self.close)

    @property
    def info(self) -> DeviceInfo:
        return self._info

    def run(self, job: Job, deadline: float | None = None) -> Result:
        """Raises what the job raises in the worker. `deadline` in seconds, 60 unless said."""
        if self._process is None:
            self._info = self._start()
        answer, blobs = self._ask(*encode(job.commands), DEADLINE if deadline is None else deadline, "The job")
        return Result(answer["values"], list(blobs), answer["counts"])

    def close(self) -> None:
        """Ends the worker: politely, by closing its input, then by killing it."""
        atexit.unregister(self.close)
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(OSError):
            process.stdin.close()  # type: ignore[union-attr]
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(2)
        self._end(process)

    def _start(self) -> DeviceInfo:
        root = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
        self._stderr.clear()
        self._process = process = subprocess.Popen(
            [sys.executable, "-m", "pytest_webgpu.gpu.worker"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,  # an interrupt in the terminal is this process's business
        )  # fmt: skip
        threading.Thread(target=_drain, args=(process.stderr, self._stderr), daemon=True).start()
        try:
            answer, _ = self._ask(self._hello, [], START_DEADLINE, "The worker's start")
        except GpuError:
            self._end(process)
            raise
        self.notes = answer["notes"]
        return _info(answer["info"])

    def _ask(
        self, data: dict[str, Any], blobs: Sequence[Bytes], deadline: float, what: str
    ) -> tuple[dict[str, Any], list[memoryview]]:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            _kill_tree(process.pid)

        timer = threading.Timer(deadline, expire)
        timer.daemon = True
        timer.start()
        try:
            send(process.stdin, data, blobs)
            message = Inbox(process.stdout).receive()
        except OSError:  # it ended before it had read all
            message = None
        except BaseException:  # an interrupt: the streams are out of step from here on
            self._end(process)
            raise
        finally:
            timer.cancel()
        if message is None:
            raise self._death(process, deadline if expired.is_set() else None, what)
        answer, answered = message
        if "error" in answer:
            kind = ERRORS.get(answer["error"], GpuError)
            if kind is DeviceLost:  # it stays lost: the next job gets a fresh process
                self._end(process)
            raise kind(answer["message"], answer["command"], **answer["details"])
        return answer, answered

    def _death(self, process: subprocess.Popen[bytes], deadline: float | None, what: str) -> GpuError:
        self._end(process)
        lines = list(self._stderr)
        said = "".join(f"\n  {line}" for line in lines)
        if deadline is not None:
            message = f"{what} did not end in {round(deadline, 1):g} s: its process was killed.{said}"
            return DeadlineExceeded(message, seconds=deadline, stderr=lines)
        reason = _reason(process.returncode)
        return RunnerDied(f"{what} ended its process: {reason}.{said}", reason=reason, stderr=lines)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        if self._process is process:
            self._process = None
        if process.poll() is None:
            _kill_tree(process.pid)
            process.wait()
        self.generation += 1
        for stream in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                stream.close()  # type: ignore[union-attr]


def _info(data: dict[str, Any]) -> DeviceInfo:
    """From JSON, in which tuples are lists."""
    fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
    return DeviceInfo(**fields)


def _drain(stream: IO[bytes], lines: deque[str]) -> None:
    with stream:
        for line in stream:
            lines.append(line.decode(errors="replace").rstrip())


def _kill_tree(pid: int) -> None:
    try:
        process = psutil.Process(pid)
        tree = [*process.children(recursive=True), process]
    except psutil.NoSuchProcess:
        return
    for one in tree:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()


def _reason(code: int) -> str:
    if code >= 0:
        return f"exit status {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    causes = {
        "SIGSEGV": "a fault in a compiler or driver, such as a stack overflow or memory that ran out",
        "SIGABRT": "a panic or an assertion in the library or driver",
        "SIGKILL": "killed from outside, as the system does when memory runs out",
    }
    return f"{name} ({causes[name]})" if name in causes else name


def _watch_parent(parent: int) -> None:
    """Ends this process when its parent is gone, also while a kernel hangs in the main thread."""
    while os.getppid() == parent and psutil.pid_exists(parent):
        time.sleep(0.5)
    os._exit(1)


def _serve(stdin: IO[bytes], stdout: IO[bytes]) -> None:
    from pytest_webgpu.gpu.native import NativeRunner  # wgpu is loaded here, after stdout was put aside

    runner: NativeRunner | None = None
    inbox = Inbox(stdin, reuse=REUSED_BYTES)
    while (message := inbox.receive()) is not None:
        data, blobs = message
        try:
            if runner is None:
                adapter = data["adapter"]
                runner = NativeRunner(Adapter(_info(adapter.pop("info")), **adapter), data["limits"], data["without"])
                send(stdout, {"info": dataclasses.asdict(runner.info), "notes": runner.notes})
            else:
                result = runner.run(decode(data, blobs))
                send(stdout, {"values": result.values, "counts": result.counts}, result.blobs)
        except GpuError as e:
            send(stdout, {"error": e.kind, "message": e.message, "command": e.command, "details": e.details})
        except Exception:  # a fault of ours: the whole trace is the message
            send(stdout, {"error": "gpu", "message": traceback.format_exc(), "command": None, "details": {}})


def main() -> None:
    threading.Thread(target=_watch_parent, args=(os.getppid(),), daemon=True).start()
    stdin, stdout = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print must not come between the messages
    for stream in (stdin, stdout):
        widen(stream)
    try:
        _serve(stdin, stdout)
    finally:
        os._exit(0)  # a device in use can hang the interpreter's own exit


if __name__ == "__main__":
    main()
