"""The running error: no correct computation is outside of its bound, and wrong ones are."""

import random

import pytest
import torch
import torch.nn.functional as F

from pytest_webgpu.conformance.bounds import SAFETY
from pytest_webgpu.conformance.running_error import BoundError, Calibration, Plan, RunningError, carry, error_of

CALIBRATED = Calibration(sin=2e-7, cos=2e-7, tanh=2e-7, far=1e-7)


STEPS = [
    lambda x, y, w: x + y, lambda x, y, w: x - 3 * y, lambda x, y, w: x * y, lambda x, y, w: x / (y.abs() + 0.5),
    lambda x, y, w: torch.tanh(x), lambda x, y, w: F.silu(x), lambda x, y, w: F.gelu(x) * y,
    lambda x, y, w: torch.exp(x.clamp(-3, 3)), lambda x, y, w: torch.log(x.abs() + 0.2),
    lambda x, y, w: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5), lambda x, y, w: torch.softmax(x, -1) + y,
    lambda x, y, w: torch.where(x > y, x, y), lambda x, y, w: torch.maximum(x, -y), lambda x, y, w: x.cumsum(-1) * 0.1,
    lambda x, y, w: F.linear(x, w), lambda x, y, w: torch.cat((y[:, 3:], x[:, :3]), -1), lambda x, y, w: x.flip(-1),
    lambda x, y, w: x.sort(-1).values, lambda x, y, w: torch.cos(x) + torch.sin(y), lambda x, y, w: (x @ w).relu(),
    lambda x, y, w: x - x.amax(-1, keepdim=True), lambda x, y, w: F.layer_norm(x, (x.shape[-1],)) + y,
    lambda x, y, w: torch.sigmoid(x) * x.sum(-1, keepdim=True), lambda x, y, w: x.var(-1, keepdim=True) + y,
    lambda x, y, w: torch.sqrt(x.abs() + 0.1), lambda x, y, w: torch.pow(x.abs() + 0.5, 1.7),
]  # fmt: skip


def program(seed):
    """Three to eight steps, each on the two latest results."""
    rng = random.Random(seed)
    steps = [rng.choice(STEPS) for _ in range(rng.randint(3, 8))]

    def run(x, y, w):
        for step in steps:
            x, y = step(x, y, w), x
        return x

    return run


def data(seed, rows=3, cols=17):
    g = torch.Generator().manual_seed(seed)
    x, y = torch.randn(rows, cols, generator=g), torch.randn(rows, cols, generator=g)
    return x, y, torch.randn(cols, cols, generator=g) / 4


def bounded(run, arguments, **options):
    plan = Plan(calibration=options.pop("calibration", CALIBRATED), **options)
    with RunningError(plan) as mode:
        value = run(*(a.double() if a.is_floating_point() else a for a in arguments))
    return value, mode.error(value)


MANY = [pytest.param(60, id="some"), pytest.param(5000, id="many", marks=pytest.mark.slow)]


@pytest.mark.parametrize("count", MANY)
def test_random_programs_in_float32_stay_inside(count):
    for seed in range(count):
        run, arguments = program(seed), data(seed)
        value, error = bounded(run, arguments)
        off = (run(*arguments).double() - value).abs()
        inside = off <= SAFETY * error + 2.0**-24 * value.abs()
        assert bool((inside | error.isinf()).all()), (seed, float((off / error).max()))


class WholeAllowance(RunningError):
    """Every operation is wrong by all that it is allowed, up or down."""

    def finish(self, value, carried, ulps=1.0, absolute=0.0):
        own = error_of(super().finish(value, None, ulps, absolute))
        return carry(value + own * (torch.randint(0, 2, value.shape) * 2 - 1), None)


@pytest.mark.parametrize("count", MANY)
def test_programs_with_every_operation_wrong_by_its_whole_allowance_stay_inside(count):
    torch.manual_seed(0)
    for seed in range(count):
        run, arguments = program(seed), [a.double() for a in data(seed)]
        value, error = bounded(run, arguments, independent=False)
        with WholeAllowance(Plan(calibration=CALIBRATED, independent=False)):
            wrong = run(*arguments)
        off = (wrong - value).abs()
        assert bool(((off <= SAFETY * error) | error.isinf()).all()), (seed, float((off / error).max()))


def test_overflow_is_unspecified_and_a_mask_is_not():
    _, error = bounded(lambda x: torch.exp(x) * 0, [torch.tensor([100.0, 1.0])])
    assert error.isinf().tolist() == [True, False]
    masked = torch.tensor([[False, True], [False, False]])
    _, error = bounded(lambda x: torch.softmax(x.masked_fill(masked, float("-inf")), -1), [torch.zeros(2, 2)])
    assert bool(error.isfinite().all())


@pytest.mark.parametrize(
    ("reference", "other"),
    [
        (lambda x: torch.softmax(x, -1), lambda x: torch.exp(x - torch.logsumexp(x, -1, keepdim=True))),
        (F.silu, lambda x: 0.5 * x * (1 + torch.tanh(0.5 * x))),
        (F.silu, lambda x: x * torch.exp(x) / (1 + torch.exp(x))),
        (lambda x: F.layer_norm(x, (64,)), lambda x: _one_pass(x)),
        (lambda x: F.gelu(x, approximate="tanh"), lambda x: x * torch.sigmoid(1.5957691216 * (x + 0.044715 * x**3))),
    ],
)
@pytest.mark.parametrize("offset", [0.0, 30.0])
def test_other_formulas_of_named_functions_are_inside(reference, other, offset):
    x = 3 * torch.randn(20, 64) + offset
    value, error = bounded(reference, [x])
    assert bool(((other(x).double() - value).abs() <= SAFETY * error + 2.0**-126).all())


def _one_pass(x):
    mean = x.mean(-1, keepdim=True)
    return (x - mean) * torch.rsqrt(x.square().mean(-1, keepdim=True) - mean.square() + 1e-5)


def test_writes_through_views_carry_their_errors():
    def run(x):
        out = torch.zeros(2, 3, dtype=torch.float64)
        row = out[1]
        row[:2].copy_(x[:2] * 0.1)
        out[0] += x * 0.1
        return out

    _, error = bounded(run, [torch.ones(3)])
    assert (error > 0).tolist() == [[True, True, True], [True, True, False]]


def test_choices_that_an_error_could_turn_are_unspecified():
    x = torch.tensor([1.0, 1.0, 0.5])
    _, error = bounded(lambda x: (x / 3).argmax(), [x])
    assert bool(error.isinf().all())
    _, error = bounded(lambda x: torch.where(x / 3 > 1 / 3, 5.0, 1.0), [x])
    assert error.tolist() == [4, 4, 0]


@pytest.mark.parametrize(
    ("run", "says"),
    [
        (lambda x: x * x.max().item(), r"reads a value out of a float tensor \(item\)"),
        (lambda x: torch.special.bessel_j0(x), r"uses special_bessel_j0, for which there is no rule"),
        (lambda x: x if x.sum() > 0 else -x, r"reads a value out of a float tensor \(__bool__\)"),
    ],
)
def test_what_cannot_be_followed_is_refused_in_one_line(run, says):
    with pytest.raises(BoundError, match=says + r".*test_running_error\.py:\d+$"):
        bounded(run, [torch.ones(3)])


def test_numbers_are_rounded_once_as_in_a_kernel():
    _, error = bounded(lambda x: torch.full((1,), 0.1, dtype=torch.float64) + 0 * x, [torch.zeros(1)])
    assert float(error) > abs(0.1 - float(torch.tensor(0.1)))


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
