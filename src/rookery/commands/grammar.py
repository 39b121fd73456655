"""The one reader of shell text: a line as the commands in it, at any depth.

A plain line is read by a small grammar of our own, any other by a real grammar of bash.
Nothing here decides anything. What the grammar does not make out is a doubt, and the text is
then also searched crudely, so that a rule against a command still finds it.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rookery.commands.grammar_nodes import (
    crude_commands,
    crude_redirections,
    for_the_parser,
    herestring,
    last_command,
    late_words,
    redirections_of,
    text_of,
    unread_line,
    without_escapes,
    words_of,
)
from rookery.commands.here_documents import Document, split_documents
from rookery.commands.plain_line import plain
from rookery.commands.resolved_line import line_of
from rookery.commands.words import ParsedLine, Script, SimpleCommand, Word
from rookery.core.command_lines import program_name
from rookery.core.limits import KIB

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

LONGEST = 8 * KIB
"""The parser takes a time that grows with the square of a hostile text's length."""

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
"""Comments and here-documents are gone by then: where the grammar finds more, it is lost."""
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
_LOST = {"it is not proper shell text", COMPUTES}
_REWRITES = "it rewrites a variable"
_GRAMMAR_LISTED = "if then elif else fi for while until do done case esac select function { } [[ ]]"
_GRAMMAR_WORDS = frozenset(_GRAMMAR_LISTED.split())
"""What the parser takes for programs where it has lost its way."""
_GAP = re.compile(r"(?:\$IFS\b|\$\{IFS[^}]{0,40}\})(?:\$[1-9])?")
_SETTING = re.compile(r"""(?<![\w$-])([A-Za-z_]\w{0,40})=('[^']*'|"[^"$`]*"|[^\s;&|$`()'"]*)""")
_NAMES_ITS_HOME = re.compile(r"(?<![$\w{])(?:HOME|PWD)\b")
"""As something that is set, and not only looked up: then nobody knows what it is."""
_PUT_IN = re.compile(r"\\(?P<escaped>[$`\\])|\\\n|\$\w+|\$\{[^{}]*\}|\$\([^()]*\)|`[^`]*`", re.S)
"""What a shell makes something else of in a document, as far as a pattern can tell."""
_NUMBERED = re.compile(r"(?<![^\s;&|(])(?:[0-9]+|\{\w+\})<<<")
_BLANK = re.compile(r"(?<!\\)\s")

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

NUMBER_TESTS = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
NAME_TESTS = frozenset({"-v", "-R"})
_NUMBER = re.compile(r"""(["']?)(?:[+-]?[0-9]+|\$[?#!$]|\$\{#\w+\})\1""")
_NAME = re.compile(r"""(["']?)\w+\1""")
_OF_NAMES_LISTED = """
    declare typeset local export readonly unset read mapfile readarray getopts integer float
"""
_OF_NAMES = frozenset(_OF_NAMES_LISTED.split())
_INDEX = re.compile(r"\w\[[^\[\]\n]*(?:\$\(|`|[<>]\()")
MOST_BEFORE = 8


def read(script: Script, *, home: str) -> ParsedLine:
    """Every simple command of the text. `home` is what `~` and `$HOME` stand for."""
    parsed = plain(script.text)
    return line_of(parsed) if parsed else _by_grammar(script, home)


def _by_grammar(script: Script, home: str) -> ParsedLine:
    text = script.text
    if "\0" in text:
        return unread_line(text, "it has NUL characters", home)
    split = split_documents(text)
    uncertain = split.doubt or ("" if script.known else NOT_ALL)
    bodies = tuple(map(_given, split.documents))
    if len(split.rest) > LONGEST:
        unread = unread_line(split.rest if not uncertain else text, TOO_LONG, home)
        return replace(unread, runs=split.runs, documents=bodies)
    line = _in_all_readings(split.rest, home)
    commands, doubts, dangers = line.commands, list(line.doubts), line.dangers
    redefines = line.redefines or bool(uncertain)
    if uncertain:
        other = _parsed(text, home) if len(text) <= LONGEST else unread_line(text, TOO_LONG, home)
        crude = unread_line(text, "", home).commands
        commands, doubts = (*commands, *other.commands, *crude), [uncertain, *doubts]
        dangers = (*dangers, *other.dangers)
    if split.runs:
        doubts.append("it runs commands inside strings")
    if COMPUTES in doubts:
        commands = (*commands, *_in_documents(bodies, home))
    documents = (*bodies, *line.documents)
    return ParsedLine(commands, tuple(doubts), split.runs, documents, dangers, redefines)


def _given(document: Document) -> Script:
    """What a command gets to read; a shell puts values into a document that is not quoted."""
    if document.quoted:
        return Script(document.body)
    without = _PUT_IN.sub(lambda found: found["escaped"] or "", document.body)
    said = _PUT_IN.sub(lambda found: found["escaped"] or found[0].strip("\\\n"), document.body)
    bare = _PUT_IN.sub("", document.body)
    return Script(said, said == without and "$" not in bare and "`" not in bare, without)


def _in_all_readings(text: str, home: str) -> ParsedLine:
    """As it is written, and as it is once the shell has put in what it knows."""
    line = _parsed(text, home)
    doubts, other = line.doubts, text
    if "\\\n" in text:
        doubts = ("it has lines continued with a backslash", *doubts)
        other = other.replace("\\\n", "")
    if _DOUBTFUL["ERROR"] in doubts:
        # the grammar does not know that a file can be opened for both, or a text by a number
        other = _NUMBERED.sub("<<<", other.replace("<>", "> "))
    other = _with_values(other)
    if other == text or len(other) > LONGEST:
        return replace(line, doubts=doubts)
    more = _parsed(other, home)
    commands, documents = (*line.commands, *more.commands), (*line.documents, *more.documents)
    return replace(line, commands=commands, doubts=doubts, documents=documents)


def _in_documents(bodies: Sequence[Script], home: str) -> Iterator[SimpleCommand]:
    """What would run if a variable were read from a document, and computed with."""
    for body in bodies:
        if "$(" in body.text or "`" in body.text:
            yield from crude_commands(body.text, home)


def _with_values(text: str) -> str:
    """The text with the variables that it sets itself put in, so that a program or a target
    behind one of them is found. It is not what the shell would run, only a hint."""
    text = _GAP.sub(" ", text)
    for name, value in _SETTING.findall(text)[:MOST_VARIABLES]:
        bare = value.strip("'\"").replace("\\", r"\\")
        text = re.sub(rf"\$(?:{name}\b|\{{{name}\}})", bare, text)
        if len(text) > LONGEST:
            break
    return text


def _parsed(text: str, home: str) -> ParsedLine:
    commands: list[SimpleCommand] = []
    doubts: dict[str, None] = {}
    documents: list[Script] = []
    if re.search(r"[^\n\t -~]", text):
        doubts["it has control or non-ASCII characters"] = None
    own_home = "" if _NAMES_ITS_HOME.search(text) else home
    late: dict[int, tuple[Word, ...]] = {}
    redefined = False
    for node, scope in _nodes(text):
        if doubt := _doubt(node):
            doubts[doubt] = None
        redefined = redefined or _redefines(node)
        match node.type:
            case "command" | "declaration_command" | "unset_command":
                said = (*words_of(node, own_home), *late.get(node.id, ()))
                commands.append(SimpleCommand(said, redirections_of(node, own_home), scope))
                doubts |= dict.fromkeys(_word_doubts(said))
            case "redirected_statement":
                opened = redirections_of(node, own_home)
                late[last_command(node)] = late_words(node, own_home)
                commands.append(SimpleCommand((), opened, scope))
                doubts |= dict.fromkeys(_word_doubts(tuple(one.word for one in opened)))
            case "command_substitution" | "process_substitution" | "function_definition":
                # a file that is opened for no command, or for one that comes later
                commands.append(SimpleCommand((), redirections_of(node, own_home), scope))
            case "herestring_redirect":
                documents.append(herestring(node, own_home))
    if any(evaluates(one.words) for one in commands) or _holds_an_index(text):
        doubts[COMPUTES] = None
    if _LOST & doubts.keys() or any(doubt.startswith(_REWRITES) for doubt in doubts):
        commands += crude_commands(text, own_home)
        commands += crude_commands(without_escapes(text), own_home) if "$'" in text else ()
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


def _holds_an_index(text: str) -> bool:
    ways = (text, re.sub(r"['\"\\]", "", text), without_escapes(text))
    return any(map(holds_an_index_that_runs, ways))


def _nodes(text: str) -> Iterator[tuple["Node", tuple[int, ...]]]:
    """All nodes of the tree in the order of the text, each with the subshells it is in."""
    tree = _parser().parse(for_the_parser(text))
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
    if node.type == "command_name" and text_of(node) in _GRAMMAR_WORDS:
        return _DOUBTFUL["ERROR"]
    if node.type == "expansion" and not re.fullmatch(r"\$\{\w+\}", text_of(node)):
        return f"{_REWRITES}: {text_of(node)[:40]}"
    if node.type in {"unary_expression", "binary_expression"} and _evaluates(node):
        return COMPUTES
    if node.type in _DOUBTFUL:
        return _DOUBTFUL[node.type]
    return "" if node.type in _UNDERSTOOD else f"it has unknown shell syntax: {node.type}"


def _evaluates(node: "Node") -> bool:
    """Whether a test computes with what need not be a number or a plain name."""
    sign = next((text_of(one) for one in node.children if one.type == "test_operator"), "")
    fits = is_number if sign in NUMBER_TESTS else is_name
    return sign in NUMBER_TESTS | NAME_TESTS and not all(
        fits(text_of(one)) for one in node.children if one.type != "test_operator"
    )


def _word_doubts(said: tuple[Word, ...]) -> Iterator[str]:
    for place, word in enumerate(said):
        if not word.known and place == 0:
            yield f"which program it runs is known only when it runs: {word.text[:40]}"
        elif not word.known and not word.pattern:
            yield f"its targets are known only when it runs: {word.text[:40]}"


def redefines_programs(assignment: str) -> bool:
    """Whether `NAME=value` may make a name such as `git` run another program."""
    name = re.match(r"\w*", assignment)
    powerful = name is None or not name[0] or bool(_POWERFUL.fullmatch(name[0]))
    return powerful and not _HARMLESS.fullmatch(assignment)


def is_number(said: str) -> bool:
    """A number, or a variable that cannot be anything else."""
    return bool(_NUMBER.fullmatch(said))


def is_name(said: str) -> bool:
    return bool(_NAME.fullmatch(said))


def holds_an_index_that_runs(text: str) -> bool:
    """Whether a command is written where the index of a variable would be."""
    return bool(_INDEX.search(text))


def evaluates(words: Sequence[Word]) -> bool:
    """Whether a shell's own command, behind others or not, evaluates what it is given."""
    return any(_evaluates_its_words(words[place:]) for place in range(min(len(words), MOST_BEFORE)))


def _evaluates_its_words(words: Sequence[Word]) -> bool:
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
    return name in _OF_NAMES and odd
