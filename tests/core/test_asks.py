"""Every kind of question, what it means for a client, and which answers it takes."""

import pytest

from rookery.core.asks import (
    CATEGORY,
    AskCategory,
    AskKind,
    category,
    is_interactive_ask,
    is_non_blocking_ask,
    required_action,
    takes,
)
from support.each_row import each_row

SPECIFICATION = """
tool                          interactive   approve              yes no message
command                       interactive   approve              yes no message
use_mcp_server                interactive   approve              yes no message
browser_action_launch         interactive   approve              yes no message
followup                      interactive   answer               message
completion_result             idle          start_task           yes message
api_req_failed                idle          retry_or_new_task    yes
mistake_limit_reached         idle          proceed_or_new_task  yes message
auto_approval_max_req_reached idle          start_new_task       yes no
resume_completed_task         idle          start_new_task       yes message
payment_required_prompt       idle          retry_or_new_task    yes
invalid_model                 idle          retry_or_new_task    yes
resume_task                   resumable     resume_or_abandon    yes message
command_output                non_blocking  continue_or_abort    yes no
report_bug                    interactive   approve              yes no
condense                      interactive   approve              yes no
checkpoint_restore            interactive   approve              yes no
"""
ROWS = [row.split() for row in SPECIFICATION.strip().splitlines()]


def test_the_specification_has_a_row_for_every_kind():
    assert {row[0] for row in ROWS} == {kind.value for kind in AskKind}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_every_kind_has_its_category_and_action(row: list[str]):
    ask, its_category, action, *_ = row
    assert category(ask) == its_category
    assert required_action(ask) == action


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_every_kind_accepts_its_answers(row: list[str]):
    ask, _, _, *answers = row
    assert set(answers) <= takes(AskKind(ask))


def test_a_text_question_accepts_only_text():
    assert takes(AskKind.FOLLOWUP) == {"message"}


@each_row("kind", AskKind)
def test_the_predicates_agree_with_the_categories(kind: AskKind):
    assert is_interactive_ask(kind) is (CATEGORY[kind] is AskCategory.INTERACTIVE)
    assert is_non_blocking_ask(kind) is (CATEGORY[kind] is AskCategory.NON_BLOCKING)


@each_row("ask", [None, "", "moonrise", "TOOL", "FOLLOWUP"])
def test_an_unknown_ask_has_no_category_and_needs_no_action(ask: str | None):
    assert category(ask) is None
    assert required_action(ask) == "none"
    assert not is_interactive_ask(ask)
