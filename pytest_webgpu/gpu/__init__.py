"""Runs WGSL somewhere. Knows nothing of ops, models or pytest."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_webgpu.gpu.adapters import Adapter
    from pytest_webgpu.gpu.job import Runner
    from pytest_webgpu.gpu.limits import LimitsAsked


def open_runner(
    adapter: Adapter, *, limits: LimitsAsked = None, without: Collection[str] = (), in_process: bool = False
) -> Runner:
    """A runner on the adapter: in a worker process that may hang or die alone, in this one, or on a browser's page.

    `limits`: None for WebGPU's defaults, "max" for all that the adapter has, or a mapping of single ones. `without`
    names features that the device is not to have.
    """
    if adapter.browser:
        from pytest_webgpu.gpu.browsers import open_browser

        return open_browser(adapter, limits, without)
    if in_process:
        from pytest_webgpu.gpu.native import NativeRunner  # wgpu is imported when it is wanted, never before

        return NativeRunner(adapter, limits, without)
    from pytest_webgpu.gpu.worker import WorkerRunner

    return WorkerRunner(adapter, limits, without)
