"""What a driver is answered: an ack and a done for what was accepted, or one error."""

from rookery.compat.structured_output.output_rows import Output, output

CONTENTS = {
    "accepted": "Accepted.",
    "task_completed": "The task is complete.",
    "task_failed": "The task ended without being completed.",
    "task_aborted": "The task was interrupted.",
    "task_busy": "The task is still at work. Wait for its result, or cancel it.",
    "task_error": "The task could not go on.",
    "responded": "The question was answered.",
    "queued": "It waits for the model's next request.",
    "resumed": "The model hears it once the task goes on.",
    "no_active_task": "There is no task at work.",
    "no_pending_ask": "No such question is open.",
    "cancel_requested": "The task is being interrupted.",
    "cancel_error": "The task could not be interrupted.",
    "pong": "pong",
    "shutdown_requested": "Shutting down.",
    "cleared": "There is no task any more.",
    "invalid_command": "This is no command.",
    "client_error": "The command could not be carried out.",
}
"""Every code there is, with what is said if nothing better is known."""

ACK_CODES = ("accepted",)
DONE_CODES = (
    *("task_completed", "task_failed", "task_aborted", "responded", "queued", "resumed"),
    *("no_active_task", "cancel_requested", "pong", "shutdown_requested", "cleared"),
)
ERROR_CODES = (
    *("task_busy", "task_error", "no_active_task", "no_pending_ask", "cancel_error"),
    *("invalid_command", "client_error"),
)
UNSUCCESSFUL = ("task_failed", "task_aborted")


def ack(request_id: str, command: str, task_id: str = "") -> Output:
    return _reply("ack", request_id, command, "accepted", task_id=task_id, success=True)


def done(request_id: str, command: str, code: str, task_id: str = "") -> Output:
    success = code not in UNSUCCESSFUL
    return _reply("done", request_id, command, code, task_id=task_id, success=success)


def error(request_id: str, command: str, code: str, content: str = "", task_id: str = "") -> Output:
    return _reply("error", request_id, command, code, content, task_id=task_id, success=False)


def _reply(
    subtype: str,
    request_id: str,
    command: str,
    code: str,
    content: str = "",
    *,
    task_id: str,
    success: bool,
) -> Output:
    return output(
        type="control",
        subtype=subtype,
        requestId=request_id,
        command=command or None,
        taskId=task_id or None,
        content=content or CONTENTS[code],
        code=code,
        success=success,
        done=True if subtype == "done" else None,
    )
