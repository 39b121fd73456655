"""How typed text is read as the reply to a question."""

from rookery.core.asks import AskKind
from rookery.core.blocks import Image
from rookery.core.commands import Answer, Speak, SwitchMode
from rookery.core.facts import Asked
from rookery.tui.followed_tasks import WatchedTask
from rookery.tui.input_router import can_answer, text_answer, yes_or_no
from rookery.tui.question_page import APPROVALS, TRIES
from rookery.tui.session_view import Draft, OpenQuestion
from support.each_row import each_row
from support.tui_scenes import COMMAND, FOLLOWUP

PICTURE = Image(media_type="image/png", data="aGk=")
OTHERS = [kind for kind in AskKind if kind not in (*APPROVALS, *TRIES)]


def question(asked: Asked) -> OpenQuestion:
    return OpenQuestion(WatchedTask("t1"), asked)


def of_kind(kind: AskKind) -> OpenQuestion:
    return question(Asked(ask_id="a", ask=kind))


@each_row(
    ("text", "reply"),
    [
        ("y", "yes"),
        (" YES \n", "yes"),
        ("n", "no"),
        ("No", "no"),
        ("yes!", None),
        ("yy", None),
        ("nope", None),
        ("", None),
    ],
)
def test_only_the_bare_word_approves_or_rejects(text: str, reply: str | None):
    for kind in (*APPROVALS, *TRIES):
        assert yes_or_no(Draft(text=text), of_kind(kind)) == reply


@each_row("kind", OTHERS)
def test_yes_is_plain_text_for_other_questions(kind: AskKind):
    assert yes_or_no(Draft(text="yes"), of_kind(kind)) is None


def test_yes_with_a_picture_does_not_approve():
    assert yes_or_no(Draft(text="yes", images=(PICTURE,)), question(COMMAND)) is None


@each_row("kind", AskKind)
def test_pictures_alone_do_not_reject(kind: AskKind):
    assert can_answer(Draft(images=(PICTURE,)), of_kind(kind)) == (kind not in APPROVALS)
    assert can_answer(Draft(text="why"), of_kind(kind))


def test_a_number_chooses_a_suggestion_and_switches_to_its_mode():
    switch, answer = text_answer(question(FOLLOWUP), Draft(text="2"))
    assert switch == SwitchMode(task_id="t1", mode="architect")
    assert isinstance(answer, Answer)
    assert (answer.reply, answer.text) == ("message", "Banker's rounding")


def test_text_rejects_an_approval_and_pictures_are_sent_separately():
    spoken, answer = text_answer(question(COMMAND), Draft(text="not now", images=(PICTURE,)))
    assert isinstance(spoken, Speak)
    assert spoken.images == (PICTURE,)
    assert isinstance(answer, Answer)
    assert (answer.reply, answer.text, answer.digest) == ("no", "not now", COMMAND.digest)
