"""What the model gets, as lines."""

from msgspec.structs import replace

from rookery.core.queries import ContextPart
from rookery.protocol.context_text import context_lines, rules_lines, usage_lines
from support.scripted_host import CONTEXT


def test_the_use_of_the_window_adds_up():
    assert list(usage_lines(CONTEXT)) == [
        "About 1,030 of 10,000 tokens are used (10 %).",
        "  System prompt       300",
        "  Rules                30  CLAUDE.md",
        "  Tools               200  1 tool",
        "  Conversation        500",
        "  Free              8,970",
        "Also here: 1 slash command.",
        "Not used:",
        "  GEMINI.md: it is too old",
        "For every part with its size, in a shell: rookery context",
    ]


def test_rules_files_are_listed_with_the_path_to_edit():
    assert list(rules_lines(CONTEXT)) == [
        "      30 tokens  CLAUDE.md",
        "To edit one, open it in your editor: /home/ada/shop/CLAUDE.md",
    ]
    assert "/init" in next(rules_lines(replace(CONTEXT, parts=())))


def test_names_of_files_cannot_move_the_cursor():
    bad = ContextPart(kind="rules", name="a\x1b[2J\nb", path="a\x1b[2J\nb", source="project")
    known = replace(CONTEXT, parts=(bad, replace(bad, unused="x\x1b[2J")), problems=("y\x1b[2J",))
    lines = [*context_lines(known), *usage_lines(known), *rules_lines(known)]
    assert all(line.isprintable() for line in lines)
