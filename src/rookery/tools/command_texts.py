"""What a model is told of a command."""

from rookery.core.limits import MIB, Limits
from rookery.core.output_preview import Preview
from rookery.engine.ports import Artifact, CommandEnd

_CORE_DUMPS = {"SIGQUIT", "SIGILL", "SIGABRT", "SIGBUS", "SIGFPE", "SIGSEGV"}
_TITLE = 100


def finished(cwd: str, end: CommandEnd, limits: Limits, preview: Preview, kept: Artifact) -> str:
    return "\n".join([_folder(cwd), status(end, limits), *_output(preview, kept)])


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
