"""Slopes, intervals and the paired rule, on samples whose truth is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import theilslopes

from pytest_webgpu.performance.simulate import COUNTS, NOISES, coverage, paired_rates
from pytest_webgpu.performance.stats import MeasurementError, Verdict, compare, cost, estimate, fit, theil_sen


def samples(a, b, rounds=20, noise=0.0, seed=0, counts=(1, 2, 5, 10, 20, 50, 100)):
    rng = np.random.default_rng(seed)
    return [
        (r, n, k := 1 + 100 // n, k * (a + b * n) * float(np.exp(noise * rng.standard_normal())))
        for r in range(rounds)
        for n in counts
    ]


def test_the_interval_is_drawn_down_to_the_floor_where_other_work_takes_time_from_some_rounds():
    counts, disturbed = (1, 2, 5, 10, 20, 50, 100), (3.0, 2.5, 2.0, 3.2, 2.8, 2.4, 2.6, 1.0)
    got = fit([(r, n, 1, 1e-4 + 1e-5 * slow * n) for r, slow in enumerate(disturbed) for n in counts])
    assert got.b.value == pytest.approx(2.55e-5)
    assert got.b.low == got.b_floor == pytest.approx(1e-5)
    quiet = fit(samples(a=1e-4, b=1e-5, noise=0.01))
    assert quiet.b.low > quiet.b_floor


def test_a_known_cost_is_recovered_and_the_wait_is_not_in_it():
    got = fit(samples(a=0.104, b=1e-5))  # a 104 ms poll: total / N would say 1,050 microseconds a dispatch
    assert got.b.value == pytest.approx(1e-5)
    assert got.a.value == pytest.approx(0.104)
    assert got.measured(100) / 100 == pytest.approx(1.05e-3)
    assert (got.b_floor, got.a_floor) == (pytest.approx(1e-5), pytest.approx(0.104))


def test_a_delay_on_each_dispatch_moves_b_and_not_a():
    plain, delayed = (fit(samples(a=1e-4, b=b, noise=0.01)) for b in (5e-6, 25e-6))
    assert delayed.b.value - plain.b.value == pytest.approx(20e-6, rel=0.05)
    assert plain.a.low <= 1e-4 <= plain.a.high
    assert delayed.a.low <= 1e-4 <= delayed.a.high


def test_one_outlier_moves_no_figure():
    data = samples(a=1e-4, b=5e-6)
    data[3] = (data[3][0], data[3][1], data[3][2], data[3][3] + 1.0)
    assert fit(data).b.value == pytest.approx(5e-6)
    assert fit(data).b_floor == pytest.approx(5e-6)


@given(st.lists(st.floats(-1e3, 1e3), min_size=10, max_size=10))
def test_it_is_the_line_of_theil_and_sen(times):
    slope, _ = theil_sen(COUNTS, np.array(times))
    assert slope == pytest.approx(theilslopes(times, COUNTS).slope, rel=1e-9, abs=1e-12)


def test_rounds_that_a_budget_cut_short_are_left_out():
    whole = samples(a=1e-4, b=5e-6, rounds=4)
    cut = [(9, 1, 1, 50.0), (9, 2, 1, 1.0)]
    assert len(fit(whole + cut).b.per_round) == 4
    with pytest.raises(MeasurementError, match="0 of 1 rounds have three different N"):
        fit(cut)


@pytest.mark.parametrize("seconds", [-1e-9, float("nan"), float("inf")])
def test_a_clock_that_goes_backwards_is_an_error(seconds):
    with pytest.raises(MeasurementError, match=r"sample 0 \(N = 1\) took .* the clock went backwards"):
        fit([(0, 1, 1, seconds), *samples(1e-4, 5e-6)])


def test_a_cost_lost_in_the_noise_is_no_cost():
    falling = samples(a=1.0, b=-1e-6, rounds=3)
    assert fit(falling).b.value == pytest.approx(-1e-6)
    with pytest.raises(MeasurementError, match="3 of 3 rounds have no positive slope"):
        cost(falling)


def test_intervals_cover_the_truth():
    for name, noise in NOISES.items():
        b, a = coverage(noise, rounds=20, trials=600)
        assert min(a, b) >= 0.93, f"{name}: b {b:.1%}, a {a:.1%}"


def test_an_interval_is_about_the_median_and_scales():
    got = estimate([3.0, 1.0, 2.0, 4.0, 100.0])
    assert got.value == 3.0
    assert got.low <= 3.0 <= got.high
    assert got.cv > 1
    assert got.scaled(1e6).high == got.high * 1e6
    with pytest.raises(MeasurementError, match="no rounds"):
        estimate([])
    with pytest.raises(MeasurementError, match="round 1 gave no finite figure"):
        estimate([1.0, float("nan")])


def test_the_paired_rule_has_three_answers():
    rng = np.random.default_rng(1)
    quiet, loud = (np.exp(s * rng.standard_normal((2, 24))) for s in (0.01, 0.3))
    assert compare(quiet[0], quiet[1] * 1.10).verdict is Verdict.WORSE
    assert compare(quiet[0], quiet[1]).verdict is Verdict.NOT_WORSE
    assert compare(quiet[0], quiet[1] * 0.8).verdict is Verdict.NOT_WORSE
    assert compare(loud[0], loud[1]).verdict is Verdict.CANNOT_TELL
    assert compare([1.0] * 24, [1.0] * 24).verdict is Verdict.NOT_WORSE
    assert compare([1.0, 1.0], [2.0, 2.0]).verdict is Verdict.CANNOT_TELL, "two rounds prove nothing"
    assert compare(quiet[0], quiet[1] * 1.1).ratio == pytest.approx(1.1, rel=0.02)


def test_a_slowdown_below_the_limit_is_not_worse():
    rng = np.random.default_rng(2)
    noise = np.exp(0.002 * rng.standard_normal((2, 24)))
    got = compare(noise[0], noise[1] * 1.015)
    assert got.p_slower < 0.01
    assert got.verdict is Verdict.NOT_WORSE


@pytest.mark.parametrize(("old", "new"), [([1.0], [1.0, 2.0]), ([0.0], [1.0]), ([1.0], [float("nan")]), ([], [])])
def test_what_cannot_be_paired_is_an_error(old, new):
    with pytest.raises(MeasurementError):
        compare(old, new)


def test_the_paired_rule_finds_five_per_cent_where_noise_is_small_and_never_passes_it():
    assert paired_rates(0.05, noise=0.025, trials=100)[Verdict.WORSE] >= 0.9
    assert paired_rates(0.0, noise=0.025, trials=200)[Verdict.WORSE] <= 0.01
    assert paired_rates(0.1, noise=0.15, trials=100)[Verdict.NOT_WORSE] <= 0.01
