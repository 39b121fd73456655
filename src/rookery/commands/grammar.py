"""The parser of shell text: finds the simple commands of a line.

A plain line is parsed by `plain_line`, any other with tree-sitter's bash grammar. Nothing is
decided here. Syntax that is not understood becomes a doubt, and the text is then also searched by
patterns, so that a deny rule still finds the command.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rookery.commands.grammar_nodes import (
    crude_commands,
    crude_redirections,
    encode_for_parser,
    expand_escapes,
    herestring,
    last_command,
    redirected_part,
    redirections_of,
    text_of,
    unparsed_line,
    words_after_redirect,
    words_of,
)
from rookery.commands.here_documents import Document, split_documents
from rookery.commands.plain_line import plain
from rookery.commands.resolved_line import line_of
from rookery.commands.words import ParsedLine, Redirection, Script, SimpleCommand, Word
from rookery.core.limits import KIB
from rookery.engine.ports.actions import program_name
from rookery.first_use import lazy_pattern

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

LONGEST = 8 * KIB
"""The parser's run time can grow with the square of the text's length."""

TOO_LONG = "it is too long"
NOT_ALL = "it passes text to a shell that is known only when it runs"
COMPUTES = "it computes"
MOST_VARIABLES = 16

_DOUBTFUL = {
    "ERROR": "it is not proper shell text",
    "comment": "it is not proper shell text",
    "heredoc_redirect": "it is not proper shell text",
    "variable_assignment": "it sets variables",
    "declaration_command": "it sets variables",
    "unset_command": "it sets variables",
    "function_definition": "it defines functions",
    "process_substitution": "it has process substitutions",
    "c_style_for_statement": COMPUTES,
    "arithmetic_expansion": COMPUTES,
    "subscript": COMPUTES,
}
"""Comments and here-documents are removed before parsing, so finding one is a parser error."""
_UNDERSTOOD_LISTED = """
    program list pipeline command command_name word string string_content raw_string
    ansi_c_string translated_string concatenation number redirected_statement file_redirect
    file_descriptor
    herestring_redirect negated_command subshell compound_statement if_statement
    elif_clause else_clause for_statement while_statement do_group case_statement case_item
    test_command unary_expression binary_expression parenthesized_expression test_operator
    extglob_pattern regex variable_name special_variable_name simple_expansion expansion
    command_substitution
"""
_UNDERSTOOD = frozenset(_UNDERSTOOD_LISTED.split())
_OWN_SHELL = {"subshell", "command_substitution", "process_substitution"}
_NOT_PARSED = {"it is not proper shell text", COMPUTES}
_REWRITES = "it rewrites a variable"
_KEYWORD_LIST = "if then elif else fi for while until do done case esac select function { } [[ ]]"
_KEYWORDS = frozenset(_KEYWORD_LIST.split())
"""Keywords; the parser reports them as programs after a syntax error."""
_GAP = lazy_pattern(r"(?:\$IFS\b|\$\{IFS[^}]{0,40}\})(?:\$[1-9])?")
_SETTING = lazy_pattern(r"""(?<![\w$-])([A-Za-z_]\w{0,40})=('[^']*'|"[^"$`]*"|[^\s;&|$`()'"]*)""")
_SETS_HOME = lazy_pattern(r"(?<![$\w{])(?:HOME|PWD)\b")
"""The text may set HOME or PWD, so their values are unknown."""
_EXPANSION = lazy_pattern(
    r"\\(?P<escaped>[$`\\])|\\\n|\$\w+|\$\{[^{}]*\}|\$\([^()]*\)|`[^`]*`", re.S
)
"""Expansions and escapes in a here-document, as far as a pattern can find them."""
_NUMBERED = lazy_pattern(r"(?<![^\s;&|(])(?:[0-9]+|\{\w+\})<<<")
_BLANK = lazy_pattern(r"(?<!\\)\s")

_HARMLESS = lazy_pattern(
    r"GIT_(AUTHOR|COMMITTER)_(NAME|EMAIL|DATE)=.*|GIT_(TERMINAL_PROMPT|MERGE_AUTOEDIT)=.*"
    r"|GIT_(SEQUENCE_)?EDITOR=['\"]?(true|:|cat)['\"]?|GIT_PAGER=['\"]?(cat)?['\"]?",
    re.S,
)
_POWERFUL = lazy_pattern(
    r"\w*(PATH|HOME|ENV|EDITOR|VISUAL|PAGER|SHELL|ASKPASS|COMMAND|PRELOAD|CONFIG|DIR|OPTS?|OPTIONS)"
    r"|IFS|(GIT|LD|DYLD|BASH|XDG|SSH|GPG|PERL|PERL5|PYTHON|RUBY|NODE|LESS|ZDOT)\w*",
    re.I,
)

NUMBER_TESTS = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
NAME_TESTS = frozenset({"-v", "-R"})
_NUMBER = lazy_pattern(r"""(["']?)(?:[+-]?[0-9]+|\$[?#!$]|\$\{#\w+\})\1""")
_NAME = lazy_pattern(r"""(["']?)\w+\1""")
_NAME_BUILTINS_LISTED = """
    declare typeset local export readonly unset read mapfile readarray getopts integer float
"""
_NAME_BUILTINS = frozenset(_NAME_BUILTINS_LISTED.split())
_INDEX = lazy_pattern(r"\w\[[^\[\]\n]*(?:\$\(|`|[<>]\()")
MOST_BEFORE = 8


def read(script: Script, *, home: str) -> ParsedLine:
    """Parse the text into simple commands. `home` replaces `~` and `$HOME`."""
    parsed = plain(script.text)
    return line_of(parsed) if parsed else _parse_bash(script, home)


def _parse_bash(script: Script, home: str) -> ParsedLine:
    text = script.text
    if "\0" in text:
        return unparsed_line(text, "it has NUL characters", home)
    split = split_documents(text)
    uncertain = split.doubt or ("" if script.known else NOT_ALL)
    bodies = tuple(map(_document_script, split.documents))
    if len(split.rest) > LONGEST:
        unread = unparsed_line(split.rest if not uncertain else text, TOO_LONG, home)
        return replace(unread, runs=split.runs, documents=bodies)
    line = _parse_variants(split.rest, home)
    commands, doubts, dangers = line.commands, list(line.doubts), line.dangers
    redefines = line.redefines or bool(uncertain)
    if uncertain:
        other = _parse(text, home) if len(text) <= LONGEST else unparsed_line(text, TOO_LONG, home)
        crude = unparsed_line(text, "", home).commands
        commands, doubts = (*commands, *other.commands, *crude), [uncertain, *doubts]
        dangers = (*dangers, *other.dangers)
    if split.runs:
        doubts.append("it runs commands inside strings")
    if COMPUTES in doubts:
        commands = (*commands, *_commands_in_documents(bodies, home))
    documents = (*bodies, *line.documents)
    return ParsedLine(commands, tuple(doubts), split.runs, documents, dangers, redefines)


def _document_script(document: Document) -> Script:
    """The text a command receives; the shell expands an unquoted here-document."""
    if document.quoted:
        return Script(document.body)
    without = _EXPANSION.sub(lambda found: found["escaped"] or "", document.body)
    text = _EXPANSION.sub(lambda found: found["escaped"] or found[0].strip("\\\n"), document.body)
    bare = _EXPANSION.sub("", document.body)
    return Script(text, text == without and "$" not in bare and "`" not in bare, without)


def _parse_variants(text: str, home: str) -> ParsedLine:
    """Parse the text as written, and again with continued lines joined and known variables
    expanded."""
    line = _parse(text, home)
    doubts, other = line.doubts, text
    if "\\\n" in text:
        doubts = ("it has lines continued with a backslash", *doubts)
        other = other.replace("\\\n", "")
    if _DOUBTFUL["ERROR"] in doubts:
        # the grammar does not know `<>` nor a file descriptor before `<<<`
        other = _NUMBERED.sub("<<<", other.replace("<>", "> "))
    other = _expand_variables(other)
    if other == text or len(other) > LONGEST:
        return replace(line, doubts=doubts)
    more = _parse(other, home)
    commands, documents = (*line.commands, *more.commands), (*line.documents, *more.documents)
    return replace(line, commands=commands, doubts=doubts, documents=documents)


def _commands_in_documents(bodies: Sequence[Script], home: str) -> Iterator[SimpleCommand]:
    """Commands that would run if a variable were read from a here-document and evaluated."""
    for body in bodies:
        if "$(" in body.text or "`" in body.text:
            yield from crude_commands(body.text, home)


def _expand_variables(text: str) -> str:
    """Expand the variables that the text sets itself, to find a program or target behind them.
    The result is a hint, not what the shell would run."""
    text = _GAP.sub(" ", text)
    for name, value in _SETTING.findall(text)[:MOST_VARIABLES]:
        bare = value.strip("'\"").replace("\\", r"\\")
        text = re.sub(rf"\$(?:{name}\b|\{{{name}\}})", bare, text)
        if len(text) > LONGEST:
            break
    return text


def _parse(text: str, home: str) -> ParsedLine:
    commands: list[SimpleCommand] = []
    doubts: dict[str, None] = {}
    documents: list[Script] = []
    if re.search(r"[^\n\t -~]", text):
        doubts["it has control or non-ASCII characters"] = None
    own_home = "" if _SETS_HOME.search(text) else home
    late: dict[int, tuple[Word, ...]] = {}
    redirected: dict[int, tuple[Redirection, ...]] = {}
    redefined = False
    for node, scope in _nodes(text):
        if opened := redirected.pop(node.id, ()):
            commands.append(SimpleCommand((), opened, scope))
        if doubt := _doubt(node):
            doubts[doubt] = None
        redefined = redefined or _redefines(node)
        match node.type:
            case "command" | "declaration_command" | "unset_command":
                words = (*words_of(node, own_home), *late.get(node.id, ()))
                commands.append(SimpleCommand(words, redirections_of(node, own_home), scope))
                doubts |= dict.fromkeys(_word_doubts(words))
            case "redirected_statement":
                opened = redirections_of(node, own_home)
                late[last_command(node)] = words_after_redirect(node, own_home)
                redirected[redirected_part(node).id] = opened
                if any(child.type == "||" for child in node.children[0].children):
                    commands.append(SimpleCommand((), opened, scope))  # a `cd` may have failed
                doubts |= dict.fromkeys(_word_doubts(tuple(one.word for one in opened)))
            case "command_substitution" | "process_substitution" | "function_definition":
                # a redirection without a command, or of one that comes later
                commands.append(SimpleCommand((), redirections_of(node, own_home), scope))
            case "herestring_redirect":
                documents.append(herestring(node, own_home))
    if any(evaluates(one.words) for one in commands) or _has_command_in_any_index(text):
        doubts[COMPUTES] = None
    if _NOT_PARSED & doubts.keys() or any(doubt.startswith(_REWRITES) for doubt in doubts):
        commands += crude_commands(text, own_home)
        commands += crude_commands(expand_escapes(text), own_home) if "$'" in text else ()
        commands += crude_redirections(text, own_home)
    return ParsedLine(
        tuple(commands), tuple(doubts), documents=tuple(documents), redefines=redefined
    )


def _redefines(node: "Node") -> bool:
    match node.type:
        case "function_definition" | "ERROR":
            return True
        case "variable_assignment":
            return redefines_programs(text_of(node))
        case "for_statement":
            names = (one for one in node.children if one.type == "variable_name")
            return any(redefines_programs(f"{text_of(name)}=") for name in names)
    return False


def _has_command_in_any_index(text: str) -> bool:
    ways = (text, re.sub(r"['\"\\]", "", text), expand_escapes(text))
    return any(map(has_command_in_index, ways))


def _nodes(text: str) -> Iterator[tuple["Node", tuple[int, ...]]]:
    """All nodes of the syntax tree in text order, each with the subshells it is in."""
    tree = _parser().parse(encode_for_parser(text))
    waiting: list[tuple[Node, tuple[int, ...]]] = [(tree.root_node, ())]
    while waiting:
        node, scope = waiting.pop()
        yield node, scope
        children = node.children
        inside = (*scope, node.id) if node.type in _OWN_SHELL else scope
        apart = node.type == "pipeline"
        for place in range(len(children) - 1, -1, -1):
            child = children[place]
            background = place + 1 < len(children) and children[place + 1].type == "&"
            own = (*inside, child.id) if apart or background else inside
            waiting.append((child, own))


@cache
def _parser() -> "Parser":
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def _doubt(node: "Node") -> str:
    if node.is_missing:
        return _DOUBTFUL["ERROR"]
    if not node.is_named:
        return COMPUTES if node.type == "((" else ""
    if node.type == "word" and _BLANK.search(text_of(node)):
        return _DOUBTFUL["ERROR"]
    if node.type == "command_name" and text_of(node) in _KEYWORDS:
        return _DOUBTFUL["ERROR"]
    if node.type == "expansion" and not re.fullmatch(r"\$\{\w+\}", text_of(node)):
        return f"{_REWRITES}: {text_of(node)[:40]}"
    if node.type in {"unary_expression", "binary_expression"} and _evaluates(node):
        return COMPUTES
    if node.type in _DOUBTFUL:
        return _DOUBTFUL[node.type]
    return "" if node.type in _UNDERSTOOD else f"it has unknown shell syntax: {node.type}"


def _evaluates(node: "Node") -> bool:
    """Whether a test evaluates something that is not a number or a plain name. Bash evaluates
    such operands, which can run commands."""
    sign = next((text_of(one) for one in node.children if one.type == "test_operator"), "")
    fits = is_number if sign in NUMBER_TESTS else is_name
    return sign in NUMBER_TESTS | NAME_TESTS and not all(
        fits(text_of(one)) for one in node.children if one.type != "test_operator"
    )


def _word_doubts(words: tuple[Word, ...]) -> Iterator[str]:
    for place, word in enumerate(words):
        if not word.known and place == 0:
            yield f"which program it runs is known only when it runs: {word.text[:40]}"
        elif not word.known and not word.pattern:
            yield f"its targets are known only when it runs: {word.text[:40]}"


def redefines_programs(assignment: str) -> bool:
    """Whether `NAME=value` may make a name such as `git` run another program."""
    name = re.match(r"\w*", assignment)
    powerful = name is None or not name[0] or bool(_POWERFUL.fullmatch(name[0]))
    return powerful and not _HARMLESS.fullmatch(assignment)


def is_number(text: str) -> bool:
    """Whether the text is a number, or a variable that always is one."""
    return bool(_NUMBER.fullmatch(text))


def is_name(text: str) -> bool:
    return bool(_NAME.fullmatch(text))


def has_command_in_index(text: str) -> bool:
    """Whether a command substitution stands inside an array index."""
    return bool(_INDEX.search(text))


def evaluates(words: Sequence[Word]) -> bool:
    """Whether a shell builtin, possibly behind wrappers, evaluates its arguments."""
    return any(_builtin_evaluates(words[place:]) for place in range(min(len(words), MOST_BEFORE)))


def _builtin_evaluates(words: Sequence[Word]) -> bool:
    name, texts = program_name(words[0].text), [word.text for word in words[1:]]
    odd = any("[" in word.text or not word.known for word in words[1:])
    match name:
        case "let":
            return True
        case "printf":
            return any(text.startswith("-v") for text in texts[:2])
        case "wait":
            return any(re.match(r"-\w*p", text) for text in texts)
        case "test" | "[":
            tested = NUMBER_TESTS | NAME_TESTS
            return bool(tested & set(texts)) and not all(
                is_number(text) or re.fullmatch(r"[\w!()-]*|\]", text) for text in texts
            )
        case "declare" | "typeset" | "local" | "export" | "readonly":
            return odd or any(re.match(r"[-+]\w*i", text) for text in texts)
    return name in _NAME_BUILTINS and odd
