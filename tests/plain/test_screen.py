"""One terminal shared by streamed text, lines, a status and a question."""

import io

from rookery.plain.screen import Screen


class Page:
    def __init__(self, *, live: bool = True) -> None:
        self._out = io.StringIO()
        self.screen = Screen(self._out, colour=False, live=live)

    @property
    def raw(self) -> str:
        return self._out.getvalue()

    @property
    def shown(self) -> list[str]:
        """The lines as a terminal shows them: text after a carriage return overwrites."""
        lines = []
        for line in self.raw.split("\n"):
            seen = ""
            for part in line.split("\r"):
                seen = part + seen[len(part) :]
            lines.append(seen.rstrip())
        return lines


def test_streamed_text_shares_a_line_until_something_else_is_written():
    page = Page()
    page.screen.stream("text", "Hello ")
    page.screen.stream("text", "there.")
    page.screen.stream("thinking", "Hm.")
    page.screen.line("● Read")
    assert page.raw == "Hello there.\nHm.\n● Read\n"


def test_text_with_a_line_end_leaves_no_blank_line():
    page = Page()
    page.screen.stream("text", "Hello.\n")
    page.screen.line("● Read")
    assert page.raw == "Hello.\n● Read\n"


def test_a_status_is_replaced_by_the_next_output():
    page = Page()
    page.screen.status("  preparing write_to_file")
    page.screen.status("  preparing write_to_file (1.0 KB)")
    page.screen.line("done")
    assert page.shown == ["done", ""]
    assert "\x1b" not in page.raw


def test_the_same_status_is_not_drawn_twice():
    page = Page()
    page.screen.status("waiting")
    page.screen.status("waiting")
    assert page.raw == "waiting"


def test_no_status_is_shown_if_lines_cannot_be_replaced():
    page = Page(live=False)
    page.screen.status("waiting")
    assert page.raw == ""


def test_new_output_goes_above_an_open_question():
    page = Page()
    page.screen.ask("Go on? ")
    page.screen.line("noted")
    page.screen.repeat_question()
    page.screen.repeat_question()
    assert page.raw == "Go on? \nnoted\nGo on? "


def test_an_answer_ends_the_line_of_the_question():
    page = Page()
    page.screen.ask("Go on? ")
    page.screen.close_question()
    page.screen.enter()
    page.screen.line("next")
    page.screen.repeat_question()
    assert page.raw == "Go on? next\n"


def test_output_after_a_withdrawn_question_starts_a_new_line():
    page = Page()
    page.screen.ask("Go on? ")
    page.screen.close_question()
    page.screen.line("Stopped.")
    assert page.raw == "Go on? \nStopped.\n"
