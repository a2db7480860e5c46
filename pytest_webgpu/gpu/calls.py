"""The API's calls of the hot path, with as little Python around each as the library allows.

Through public methods a dispatch costs 8 microseconds of Python; the libraries' own cffi handles cost a quarter of
that. They are private, so whatever is missing of them falls back to the public methods.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pytest_webgpu.gpu.job import DeviceLost

INTERNALS = {"wgpu-native": "wgpu.backends.wgpu_native._api", "dawn": "wgpudawn.backends.dawn._api"}


@dataclass(frozen=True)
class Calls:
    """Encoders, passes, pipelines and groups are whatever `handle` makes of the library's objects.

    set_pipeline(pass, pipeline); set_bind_group(pass, *bind_arguments(index, group)); dispatch(pass, x, y, z).
    `finish` raises what was wrong in the encoding, so that nothing wrong is submitted (which would end the process).
    `wait` is a fence for everything submitted, `fence` its name; `mark` returns a ticket for what was submitted so
    far, which `wait_for` waits for. `take(buffer, target)` maps a staging buffer and copies its
    first bytes out.
    """

    name: str
    fence: str
    handle: Callable[[Any], Any]
    bind_arguments: Callable[[int, Any], tuple[Any, ...]]
    encoder: Callable[[], Any]
    begin_pass: Callable[[Any], Any]
    set_pipeline: Callable[..., None]
    set_bind_group: Callable[..., None]
    dispatch: Callable[..., None]
    end_pass: Callable[[Any], None]
    copy: Callable[[Any, Any, int, Any, int, int], None]
    finish: Callable[[Any], Any]
    submit: Callable[[Any], None]
    mark: Callable[[], Any]
    wait: Callable[[], None]
    wait_for: Callable[[Any], None]
    take: Callable[[Any, memoryview], None]


def make_calls(implementation: str, module: Any, device: Any, public: bool = False) -> Calls:
    """The calls of a device: through handles, or through public methods where those are not there (or `public`)."""
    try:
        if not public:
            return _handle_calls(importlib.import_module(INTERNALS[implementation]), device)
    except (ImportError, AttributeError):
        pass  # another version of the library
    return _public_calls(implementation, module, device)


def _handle_calls(api: Any, device: Any) -> Calls:
    lib, checked, null = api.lib, api.libf, api.ffi.NULL
    native, queue = device._internal, device.queue._internal
    commands = api.ffi.new("WGPUCommandBuffer[1]")
    new_encoder, new_pass = lib.wgpuDeviceCreateCommandEncoder, lib.wgpuCommandEncoderBeginComputePass
    pass_end, pass_release = lib.wgpuComputePassEncoderEnd, lib.wgpuComputePassEncoderRelease
    encoder_finish, encoder_release = checked.wgpuCommandEncoderFinish, lib.wgpuCommandEncoderRelease
    commands_release = lib.wgpuCommandBufferRelease

    def end_pass(compute_pass: Any) -> None:
        pass_end(compute_pass)
        pass_release(compute_pass)

    def finish(encoder: Any) -> Any:
        try:
            return encoder_finish(encoder, null)
        finally:
            encoder_release(encoder)

    if hasattr(lib, "wgpuDevicePoll"):  # wgpu-native
        poll, submit_for_index = lib.wgpuDevicePoll, checked.wgpuQueueSubmitForIndex
        index, awaited = api.ffi.new("WGPUSubmissionIndex *"), api.ffi.new("WGPUSubmissionIndex *")
        fence = "device poll"
        mapped: list[int] = []

        @api.ffi.callback("void(WGPUMapAsyncStatus, WGPUStringView, void *, void *)")  # type: ignore[untyped-decorator]
        def on_mapped(status: int, _message: Any, _one: Any, _two: Any) -> None:
            mapped.append(status)

        info = api.ffi.new("WGPUBufferMapCallbackInfo *")
        info.mode = lib.WGPUCallbackMode_AllowProcessEvents

        def submit(command_buffer: Any) -> None:
            commands[0] = command_buffer
            index[0] = submit_for_index(queue, 1, commands)
            commands_release(command_buffer)

        def mark() -> Any:
            return index[0]

        def wait() -> None:
            poll(native, True, null)

        def wait_for(ticket: Any) -> None:
            awaited[0] = ticket
            poll(native, True, awaited)

        def take(buffer: Any, target: memoryview) -> None:
            """The public way wakes a polling thread, which costs half a millisecond."""
            size = len(target)
            mapped.clear()
            info.callback = on_mapped  # named here, so that it lives as long as this function
            handle = buffer._internal
            checked.wgpuBufferMapAsync(handle, lib.WGPUMapMode_Read, 0, size, info[0])
            poll(native, True, null)
            if mapped != [lib.WGPUMapAsyncStatus_Success]:
                raise DeviceLost(f"A staging buffer could not be mapped (status {mapped})")
            target[:] = api.ffi.buffer(checked.wgpuBufferGetMappedRange(handle, 0, size), size)
            lib.wgpuBufferUnmap(handle)

    else:
        fence, take, queue_submit = "on_submitted_work_done", _take, checked.wgpuQueueSubmit
        mark = device.queue.on_submitted_work_done_async

        def submit(command_buffer: Any) -> None:
            commands[0] = command_buffer
            queue_submit(queue, 1, commands)
            commands_release(command_buffer)

        def wait() -> None:
            mark().sync_wait()

        def wait_for(ticket: Any) -> None:
            ticket.sync_wait()

    return Calls(
        name="handles",
        fence=fence,
        handle=lambda thing: thing._internal,
        bind_arguments=lambda index, group: (index, group._internal, 0, null),
        encoder=lambda: new_encoder(native, null),
        begin_pass=lambda encoder: new_pass(encoder, null),
        set_pipeline=lib.wgpuComputePassEncoderSetPipeline,
        set_bind_group=lib.wgpuComputePassEncoderSetBindGroup,
        dispatch=lib.wgpuComputePassEncoderDispatchWorkgroups,
        end_pass=end_pass,
        copy=lib.wgpuCommandEncoderCopyBufferToBuffer,
        finish=finish,
        submit=submit,
        mark=mark,
        wait=wait,
        wait_for=wait_for,
        take=take,
    )


def _take(buffer: Any, target: memoryview) -> None:
    buffer.map_sync("READ", 0, len(target))
    target[:] = buffer.read_mapped(0, len(target), copy=False)
    buffer.unmap()


def _public_calls(implementation: str, module: Any, device: Any) -> Calls:
    queue = device.queue
    usage = module.BufferUsage
    if implementation == "dawn":  # on wgpu 0.32 this call raises TypeError
        fence, wait = "on_submitted_work_done", queue.on_submitted_work_done_sync
    elif hasattr(device, "_poll_wait"):
        fence, wait = "device poll", device._poll_wait
    else:
        four = device.create_buffer(size=4, usage=usage.COPY_SRC | usage.COPY_DST)

        def wait() -> None:
            queue.read_buffer(four)

        fence = "read of 4 bytes"

    return Calls(
        name="public",
        fence=fence,
        handle=lambda thing: thing,
        bind_arguments=lambda index, group: (index, group),
        encoder=device.create_command_encoder,
        begin_pass=lambda encoder: encoder.begin_compute_pass(),
        set_pipeline=lambda p, pipeline: p.set_pipeline(pipeline),
        set_bind_group=lambda p, index, group: p.set_bind_group(index, group),
        dispatch=lambda p, x, y, z: p.dispatch_workgroups(x, y, z),
        end_pass=lambda p: p.end(),
        copy=lambda e, source, offset, target, to, size: e.copy_buffer_to_buffer(source, offset, target, to, size),
        finish=lambda encoder: encoder.finish(),
        submit=lambda command_buffer: queue.submit([command_buffer]),
        mark=lambda: None,
        wait=wait,
        wait_for=lambda _ticket: wait(),
        take=_take,
    )
