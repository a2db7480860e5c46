"""What other plugins and conftests may add."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.hookspec()
def pytest_webgpu_register_ops(config: pytest.Config) -> Any:
    """Called once, before the first op is looked up: import the modules whose `@op` functions are to be known.

    Whatever it returns is ignored; `@op` itself registers the contract.
    """
