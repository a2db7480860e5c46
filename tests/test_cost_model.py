"""The time of a token from its parts, and from the published parts of a GPU that is not here."""

import pytest

from pytest_webgpu.performance.model import CostModel, Prediction, Token, by_kernels, published
from pytest_webgpu.performance.work import Work
from pytest_webgpu.report.paper import published as paper

MODEL = CostModel(fixed=1e-4, per_dispatch=1e-5, bandwidth=1e12, rate=1e13)


def test_the_parts_add_up_and_the_error_is_printed_against_what_was_measured():
    token = Token(100, Work(bytes=10**9, flops=10**9))
    assert MODEL.parts(token) == pytest.approx({"fixed": 1e-4, "dispatches": 1e-3, "bytes": 1e-3, "flops": 1e-4})
    assert MODEL.seconds(token) == pytest.approx(2.2e-3)
    assert MODEL.tokens_per_second(token) == pytest.approx(1 / 2.2e-3)
    assert Prediction(MODEL.parts(token), measured=2e-3).error == pytest.approx(0.1)
    assert Prediction(by_kernels(1e-4, [1e-3, 1e-3]), measured=2.1e-3).error == pytest.approx(0)


def test_which_fusion_pays():
    work = Work(10**9, 10**9)
    gains = MODEL.gains({"none": Token(929, work), "rms_norm": Token(675, work), "all": Token(122, work)})
    assert gains["none"] == 1
    assert gains["rms_norm"] == pytest.approx((1.2e-3 + 9.29e-3) / (1.2e-3 + 6.75e-3))
    assert gains["all"] > gains["rms_norm"]


def test_from_which_batch_on_kernels_outweigh_dispatches():
    def token(rows):
        return Token(100, Work(10**8, rows * 10**9))

    rows = MODEL.rows_where_kernels_outweigh(token)
    assert rows == 9, "1e-4 s of bytes and 1e-4 s a row reach 1e-3 s of dispatches"
    assert MODEL.rows_where_kernels_outweigh(token, most=8) is None


def test_published_gpus_are_estimates_from_two_sources():
    models = published(paper())
    assert "dawn, vulkan, NVIDIA RTX 5090" in models
    dawn = models["dawn, vulkan, NVIDIA RTX 5090"]
    assert dawn.per_dispatch == pytest.approx(23.8e-6)
    assert dawn.fixed == pytest.approx(473e-6)
    assert "data sheet" in dawn.source
    assert not any("firefox" in name for name in models), "an artefact is no cost"
