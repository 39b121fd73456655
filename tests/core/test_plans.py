from rookery.core.plans import MOST_STEPS, plan_steps
from support.each_row import each_row

PLANS = {
    "a checklist": (
        "# Plan\n\n- [ ] One\n* [x] Two\n1. [ ] Three\n\nX",
        ["One", "Two", "Three"],
    ),
    "numbers": ("1. One\n   - detail\n2) Two\n\n10. Three", ["One", "Two", "Three"]),
    "a checklist before numbers": ("1. Not this\n- [ ] This", ["This"]),
    "code is no step": ("```\n- [ ] no\n1. no\n```\n1. Yes", ["Yes"]),
    "prose": ("Just do it.\n- a bullet", []),
    "nothing": ("", []),
}


@each_row("name", PLANS)
def test_the_steps_of_a_plan(name: str):
    text, steps = PLANS[name]
    assert [each.content for each in plan_steps(text)] == steps


def test_steps_have_their_own_ids_and_are_limited():
    steps = plan_steps("- [ ] again\n" * (MOST_STEPS + 1))
    assert len({each.id for each in steps}) == MOST_STEPS
