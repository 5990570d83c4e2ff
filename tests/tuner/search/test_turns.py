"""``turns`` shares the next trials among the templates of a space by past trials and worth."""

from tuner.search.turns import turns

A, B, C = range(10), range(10, 12), range(12, 40)


def test_template_with_the_fewest_trials_goes_first_until_all_are_level() -> None:
    assert turns(5, {A: 4, B: 1, C: 3}, {A: 6, B: 9, C: 9}) == [B, B, B, C, A]


def test_template_without_configurations_left_gets_no_turn() -> None:
    assert turns(5, {A: 0, B: 0, C: 0}, {A: 3, B: 1, C: 0}) == [A, B, A, A]


def test_template_that_is_worth_less_waits_longer() -> None:
    tried, left, worth = {A: 4, B: 0, C: 2}, {A: 6, B: 2, C: 9}, {A: 1.0, B: 0.25, C: 0.25}
    assert turns(6, tried, left, worth) == [B, A, B, A, A, A]
