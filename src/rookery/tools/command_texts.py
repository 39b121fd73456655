"""What a model is told of a command."""

from rookery.core.limits import MIB, Limits
from rookery.core.text.output_preview import Preview
from rookery.engine.ports import Artifact, CommandEnd

_CORE_DUMPS = {"SIGQUIT", "SIGILL", "SIGABRT", "SIGBUS", "SIGFPE", "SIGSEGV"}
_TITLE = 100
_SIGNS_OF_A_SANDBOX = ("Read-only file system", "Permission denied", "Network is unreachable")
_BLOCKED = (
    "It may have been blocked: it ran {where}. Do not look for a way around that; do it inside "
    "the workspace, or ask the user to."
)


def finished(
    cwd: str, end: CommandEnd, limits: Limits, preview: Preview, kept: Artifact, *, where: str
) -> str:
    """`where` is what the command was confined to, if anything."""
    refused = [_BLOCKED.format(where=where)] if where and _was_blocked(end, preview) else []
    return "\n".join([_folder(cwd), status(end, limits), *refused, *_output(preview, kept)])


def _was_blocked(end: CommandEnd, preview: Preview) -> bool:
    said = preview.text() if end.exit_code else ""
    return any(sign in said for sign in _SIGNS_OF_A_SANDBOX)


def still_running(
    cwd: str, seconds: float, preview: Preview, kept: Artifact, *, waits_for_input: bool
) -> str:
    stuck = (
        "It waits for input, which nobody can give it here: run it again with what it asks for "
        "as arguments, and do not wait for this one."
    )
    return "\n".join(
        [
            _folder(cwd),
            f"Still running after {max(1, round(seconds))} s. It goes on in the background, and "
            "you will be told when it ends; it is ended with the task at the latest.",
            *([stuck] if waits_for_input else []),
            *_output_so_far(preview, kept),
        ]
    )


def ended_in_background(command: str, told: str, news: Preview, kept: Artifact) -> str:
    return "\n".join(
        [
            f"[automatic] The command that ran in the background has ended: {first_line(command)}",
            told,
            *(_output(news, kept) if news.total else ["It wrote nothing more."]),
        ]
    )


def first_line(command: str) -> str:
    first, *more = command.strip().splitlines()
    return f"{first[:_TITLE]} …" if more or len(first) > _TITLE else first


def status(end: CommandEnd, limits: Limits) -> str:
    match end:
        case CommandEnd(stopped=True):
            return "Ended by the user before it was done. Do not run it again unless they ask."
        case CommandEnd(timed_out=True):
            return (
                f"Ended by the time limit of {limits.command_seconds:g} s, before it was done. "
                "Do not run it again unchanged."
            )
        case CommandEnd(flooded=True):
            return (
                f"Ended because it wrote more than {limits.output_total / MIB:g} MiB. "
                "Send its output to a file, or ask it for less."
            )
        case CommandEnd(exit_code=0):
            return "Exit code: 0"
        case CommandEnd(exit_code=code) if code < 0:
            return "Exit code: unknown. Nobody saw the command end; check what it has done."
        case CommandEnd(exit_code=code, signal=""):
            return f"Exit code: {code}. Look at the output for the reason before going on."
        case CommandEnd(exit_code=code, signal=name):
            core = "; it may have left a core dump" if name in _CORE_DUMPS else ""
            return f"Exit code: {code}, killed by {name}{core}."


def _folder(cwd: str) -> str:
    return f"Directory: {cwd or '.'}"


def _output(preview: Preview, kept: Artifact) -> list[str]:
    if preview.complete:
        return ["Output:", preview.text()] if preview.total else ["It wrote nothing."]
    return [
        f"Output: {kept.size} bytes, kept as {kept.id}. This is its beginning and its "
        "end; read_command_output reads or searches the rest.",
        preview.text(),
    ]


def _output_so_far(preview: Preview, kept: Artifact) -> list[str]:
    where = f"All its output goes to {kept.id}, which read_command_output reads."
    if not preview.total:
        return [f"It has written nothing yet. {where}"]
    return [where, "Output so far:", preview.text()]
