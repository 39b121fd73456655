"""Let tests interrupt processes, however they were started themselves."""

import signal


def heed_interrupts() -> None:
    """Stop ignoring Ctrl-C. A shell without job control starts background jobs with Ctrl-C
    ignored, and children inherit that."""
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, None)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual or signal.SIG_DFL)
