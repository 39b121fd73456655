from dataclasses import FrozenInstanceError, fields, replace

import msgspec
import pytest

from rookery.core.values import FEW, record, value


@value
class Named:
    """Has a docstring."""

    first: str
    second: int = 2


@record
class Placed:
    first: str
    second: tuple[str, ...] = ()


@value
class Empty:
    pass


@record
class Secretive:
    key: str

    def __repr__(self) -> str:
        return "Secretive"


def test_fields_are_given_by_name_or_by_place_and_have_defaults():
    assert (Named(first="a").first, Named(first="a").second) == ("a", 2)
    assert (Placed("a").first, Placed("a", ("b",)).second) == ("a", ("b",))


def test_a_value_takes_its_fields_by_name_only():
    with pytest.raises(TypeError):
        Named("a")


@pytest.mark.parametrize("given", [{}, {"first": "a", "third": 3}])
def test_missing_and_unknown_fields_are_refused(given: dict[str, object]):
    with pytest.raises(TypeError):
        Named(**given)


@pytest.mark.parametrize("before", [0, FEW - 1, FEW, FEW + 1])
@pytest.mark.parametrize(
    ("placed", "named"),
    [
        pytest.param((), {}, id="missing"),
        pytest.param(("a", 2, 3), {}, id="too-many"),
        pytest.param(("a",), {"first": "b"}, id="twice"),
        pytest.param(("a",), {"third": 3}, id="unknown"),
    ],
)
def test_every_instance_is_filled_alike_and_faults_are_always_refused(
    before: int, placed: tuple[object, ...], named: dict[str, object]
):
    @record
    class Fresh:
        first: str
        second: int = 2

    there = [Fresh("a", second=number) for number in range(before)]
    with pytest.raises(TypeError):
        Fresh(*placed, **named)
    assert [(each.first, each.second) for each in (*there, Fresh("a"))] == [
        *(("a", number) for number in range(before)),
        ("a", 2),
    ]


def test_values_of_one_class_are_equal_if_their_content_is():
    assert Named(first="a") == Named(first="a", second=2) != Named(first="b")
    assert Named(first="a") != Placed("a")
    assert Empty() == Empty()


def test_equal_values_count_once_in_a_set():
    assert len({Named(first="a"), Named(first="a"), Named(first="b")}) == 2


def test_values_cannot_be_changed_and_take_no_other_attributes():
    named = Named(first="a")
    with pytest.raises(FrozenInstanceError):
        named.first = "b"
    with pytest.raises(FrozenInstanceError):
        del named.first
    assert not hasattr(named, "__dict__")


def test_they_show_what_they_hold_unless_they_say_otherwise():
    assert repr(Named(first="a")) == "Named(first='a', second=2)"
    assert repr(Secretive("a")) == "Secretive"


def test_they_are_dataclasses_to_everyone_else():
    assert [field.name for field in fields(Named)] == ["first", "second"]
    assert replace(Named(first="a"), second=3) == Named(first="a", second=3)
    match Placed("a", ("b",)):
        case Placed(first, second=(only,)):
            assert (first, only) == ("a", "b")
    assert msgspec.json.decode(msgspec.json.encode(Named(first="a")), type=Named) == Named(
        first="a"
    )


def test_a_default_that_would_be_made_anew_each_time_is_refused():
    from dataclasses import field

    with pytest.raises(TypeError, match=r"Listing\.rows"):

        @value
        class Listing:
            rows: list[str] = field(default_factory=list)
