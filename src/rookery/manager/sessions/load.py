"""A session as it was left, which its log and its process tell better than its record."""

from msgspec.structs import replace

from rookery.manager.sessions.rebuild import rebuilt
from rookery.manager.sessions.session_process import lives
from rookery.manager.sessions.session_states import SessionStatus
from rookery.manager.sessions.supervised_session import SupervisedSession


async def load(session: SupervisedSession) -> None:
    """Takes up what an earlier manager has left of it: its process, or its place in the queue."""
    mark = session.folder.mark()
    current = mark if mark and mark.generation == session.record.generation else None
    alive = current is not None and lives(current)
    was_prepared = session.folder.launch() is not None
    waits_for_its_turn = session.record.process_open and not current and was_prepared
    begins = current is not None and current.new_task and not session.announced
    if (alive and not begins) or session.record.status is SessionStatus.RUNNING:
        await session.recall()
    _note_what_its_log_tells(session)
    at_hand = current is not None and current.at_rest and not session.record.saw_session_created
    goes_on = (alive or waits_for_its_turn) and not at_hand
    ask = session.root.ask if goes_on else session.stored_ask
    session.session = rebuilt(session.record, ask, alive=goes_on)
    if at_hand and alive:
        session.session = replace(session.session, process_open=True)
    if mark and lives(mark):
        session.keeper.adopt(mark, heard=alive and session.session.process_open)
    if waits_for_its_turn and session.session.process_open:
        session.wait_for_its_turn()


def _note_what_its_log_tells(session: SupervisedSession) -> None:
    record, root = session.record, session.root
    requested = root.has_made_a_request and record.saw_session_created
    session.record = replace(
        record,
        saw_api_req_started=record.saw_api_req_started or requested,
        completion_text=root.result or record.completion_text,
    )
