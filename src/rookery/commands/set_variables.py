"""Which variables change what a program's name means, or which programs git runs."""

import re

_HARMLESS = re.compile(
    r"GIT_(AUTHOR|COMMITTER)_(NAME|EMAIL|DATE)=.*|GIT_(TERMINAL_PROMPT|MERGE_AUTOEDIT)=.*"
    r"|GIT_(SEQUENCE_)?EDITOR=['\"]?(true|:|cat)['\"]?|GIT_PAGER=['\"]?(cat)?['\"]?",
    re.S,
)
_POWERFUL = re.compile(
    r"\w*(PATH|HOME|ENV|EDITOR|VISUAL|PAGER|SHELL|ASKPASS|COMMAND|PRELOAD|CONFIG|DIR|OPTS?|OPTIONS)"
    r"|IFS|(GIT|LD|DYLD|BASH|XDG|SSH|GPG|PERL|PERL5|PYTHON|RUBY|NODE|LESS|ZDOT)\w*",
    re.I,
)


def redefines_programs(assignment: str) -> bool:
    """Whether `NAME=value` may make a name such as `git` run another program."""
    name = re.match(r"\w*", assignment)
    powerful = name is None or not name[0] or bool(_POWERFUL.fullmatch(name[0]))
    return powerful and not _HARMLESS.fullmatch(assignment)
