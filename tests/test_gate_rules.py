"""The stored-baseline rule and the exact counts."""

import datetime

import pytest

from pytest_webgpu.gate.rules import Count, Observation, judge, judge_count, judge_ratio, sittings
from pytest_webgpu.gate.simulate import TABLE, run_rates, stored_rates
from pytest_webgpu.performance.stats import Verdict

STEADY = (1.0, 1.01, 0.99, 1.0, 1.005)


def only(value, baseline=STEADY, second=None):
    (judgement,) = judge([Observation("b", value, baseline, second)])
    return judgement


def test_worse_takes_two_sessions():
    first = only(1.10)
    assert (first.verdict, first.remeasure) == (Verdict.CANNOT_TELL, True)
    assert only(1.10, second=1.11).verdict is Verdict.WORSE
    assert only(1.10, second=1.01).verdict is Verdict.NOT_WORSE
    assert only(0.5).verdict is Verdict.NOT_WORSE
    assert first.ratio == pytest.approx(1.10, rel=0.01)


def test_below_five_per_cent_nothing_is_worse():
    quiet = (1.0,) * 20
    assert only(1.049, quiet).verdict is Verdict.NOT_WORSE
    assert only(1.049, quiet).limit >= 1.05


@pytest.mark.parametrize("sessions", [0, 1, 2])
def test_fewer_than_three_sittings_give_no_verdict_and_say_how_to_make_them(sessions):
    got = only(9.0, (1.0,) * sessions)
    assert got.verdict is Verdict.NO_BASELINE
    assert "--webgpu-update-baselines" in got.reason


def test_sittings_that_vary_too_much_judge_nothing():
    got = only(3.0, (1.0, 1.3, 0.8, 1.2, 0.9), second=3.0)
    assert got.verdict is Verdict.CANNOT_TELL
    assert "the limit is" in got.reason


def test_a_canary_out_of_its_limits_judges_nothing():
    observations = [Observation("b", 1.2, STEADY, 1.2)]
    for canary, verdict in ((1.3, Verdict.CANNOT_TELL), (0.7, Verdict.CANNOT_TELL), (1.0, Verdict.WORSE)):
        assert judge(observations, Observation("canary", canary, STEADY))[0].verdict is verdict
    assert judge(observations, Observation("canary", 9.0, (1.0,)))[0].verdict is Verdict.WORSE


def test_most_over_at_once_is_the_machine():
    def verdicts(*values):
        return [j.verdict for j in judge([Observation(str(i), v, STEADY, v) for i, v in enumerate(values)])]

    assert verdicts(1.2, 1.2, 1.0) == [Verdict.CANNOT_TELL] * 3
    assert verdicts(1.2, 1.0, 1.0) == [Verdict.WORSE, Verdict.NOT_WORSE, Verdict.NOT_WORSE]
    assert verdicts(1.2) == [Verdict.WORSE]


def test_eight_gate_and_the_rest_are_listed():
    judged = judge([Observation(str(i), 2.0 if i == 8 else 1.0, STEADY) for i in range(10)])
    assert [j.verdict for j in judged] == [Verdict.NOT_WORSE] * 8 + [None] * 2
    assert judged[8].ratio == pytest.approx(2.0, rel=0.01)


def test_holm_widens_the_limits_of_many_and_not_those_with_few_sittings():
    varied = tuple(1 + 0.03 * (-1) ** i for i in range(12))
    alone = judge([Observation("a", 1.07, varied)])[0]
    among = judge([Observation("a", 1.07, varied), *(Observation(f"{i}", 1.0, varied) for i in range(7))])
    assert among[0].limit > alone.limit
    assert alone.remeasure
    assert not among[0].remeasure
    few = judge([Observation("a", 1.07, varied[:9]), *(Observation(f"{i}", 1.0, varied[:9]) for i in range(7))])
    assert few[0].limit == judge([Observation("a", 1.07, varied[:9])])[0].limit


def test_holm_steps_down():
    varied = tuple(1 + 0.01 * (-1) ** i for i in range(12))
    values = (1.0, 1.3, 1.0, 1.2, 1.0)
    judged = judge([Observation(str(i), v, varied, v) for i, v in enumerate(values)])
    assert [j.verdict is Verdict.WORSE for j in judged] == [False, True, False, True, False]


@pytest.mark.parametrize("value", [float("nan"), 0.0, -1.0, float("inf")])
def test_what_is_no_value_is_an_error_and_never_a_pass(value):
    for observation in (Observation("b", value, STEADY), Observation("b", 1.0, (*STEADY, value))):
        with pytest.raises(ValueError, match="cannot be judged"):
            judge([observation])
    with pytest.raises(ValueError, match="two observations have one key"):
        judge([Observation("b", 1.0), Observation("b", 1.0)])


def test_one_dispatch_more_is_worse_and_names_the_op():
    then = Count(15, {"rms_norm": 5, "linear": 10})
    more = judge_count("dispatches a token", Count(16, {"rms_norm": 5, "linear": 10, "silu_mul": 1}), then)
    assert (more.verdict, more.reason) == (Verdict.WORSE, "15 -> 16 (silu_mul: 0 -> 1)")
    assert judge_count("n", then, then).verdict is Verdict.NOT_WORSE
    fewer = judge_count("n", Count(14, {"rms_norm": 4, "linear": 10}), then)
    assert fewer.verdict is Verdict.NOT_WORSE
    assert "rms_norm: 5 -> 4" in fewer.reason
    assert judge_count("n", then, None).verdict is Verdict.NO_BASELINE


@pytest.mark.parametrize(
    ("then", "now", "verdict"),
    [
        (0.2, 0.39, Verdict.NOT_WORSE),
        (0.2, 0.41, Verdict.WORSE),
        (0.0, 0.1, Verdict.WORSE),
        (0.0, 0.0, Verdict.NOT_WORSE),
        (None, 0.1, Verdict.NO_BASELINE),
    ],
)
def test_an_error_that_lost_a_bit_is_worse(then, now, verdict):
    assert judge_ratio("error/bound", now, then).verdict is verdict


def test_a_sitting_is_a_boot_and_an_hour():
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    minutes = [("a", 0), ("a", 59), ("a", 61), ("b", 62), ("a", 90)]
    assert sittings([(boot, start + datetime.timedelta(minutes=m)) for boot, m in minutes]) == [[0, 1], [2, 4], [3]]


def test_false_alarms_and_power_are_at_least_the_published_ones():
    for (session, run), expected in TABLE.items():
        for slowdown, published in expected.items():
            rate = stored_rates(slowdown, session, run, trials=4000)[Verdict.WORSE]
            if slowdown == 0:
                assert rate <= published, (session, slowdown)
            else:
                assert rate >= published - 0.02, (session, slowdown)


def test_one_slow_benchmark_of_eight_is_found_and_no_other_is_blamed():
    told = run_rates(0.2, 0.02, 0.01, trials=200)
    assert told["found"] == 1
    assert told["false alarm"] <= 0.02
    assert run_rates(0.2, 0.2, 0.1, trials=50)["cannot tell"] > 0.9
