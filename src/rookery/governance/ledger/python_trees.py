"""Two versions of a Python program compared by what they mean. Raises `ValueError` for a text that
is no Python."""

import ast
import tokenize
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_Comprehension: TypeAlias = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_SCOPES = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_LOOKS_AT_NAMES = {"locals", "vars", "eval", "exec", "dir"}


def same_code(old: str, new: str) -> bool:
    """Whether they differ in nothing but layout, comments and documentation."""
    return _dumped(_without_documentation(_parsed(old))) == _dumped(
        _without_documentation(_parsed(new))
    )


def same_comments(old: str, new: str) -> bool:
    """Whether comments and documentation say the same."""
    return _comments(old) == _comments(new) and _dumped(_parsed(old)) == _dumped(_parsed(new))


def same_but_for_local_names(old: str, new: str) -> bool:
    """Whether they are the same once every local name is called by the order of its coming."""
    return _with_plain_names(old) == _with_plain_names(new)


def _parsed(text: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError("it is no Python") from error


def _dumped(tree: ast.Module) -> str:
    try:
        return ast.dump(tree)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _without_documentation(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    return tree


def _comments(text: str) -> list[str]:
    lines = iter(text.splitlines(keepends=True))
    try:
        found = list(tokenize.generate_tokens(lambda: next(lines, "")))
    except (tokenize.TokenError, SyntaxError) as error:
        raise ValueError("it is no Python") from error
    return [each.string for each in found if each.type == tokenize.COMMENT]


def _with_plain_names(text: str) -> str:
    tree = _without_documentation(_parsed(text))
    try:
        _PlainNames().visit(tree)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    return _dumped(tree)


class _PlainNames(ast.NodeTransformer):
    """Calls the local names of functions and comprehensions by numbers. Parameters keep theirs:
    callers may use them. So do names in a function that looks at names itself."""

    def __init__(self) -> None:
        self._scopes: list[tuple[bool, dict[str, str]]] = []
        self._count = 0

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self._called(node.id)
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        node.name = node.name and self._called(node.name)
        return self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs) -> ast.AST:
        node.name = node.name and self._called(node.name)
        return self.generic_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> ast.AST:
        node.name = node.name and self._called(node.name)
        return node

    def visit_MatchMapping(self, node: ast.MatchMapping) -> ast.AST:
        node.rest = node.rest and self._called(node.rest)
        return self.generic_visit(node)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.AST:
        node.names = [self._called(each) for each in node.names]
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._function(node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self.visit(node.args)
        self._within([node.body], {name: name for name in _parameters(node)})
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self._visit_all([*node.decorator_list, *node.bases, *node.keywords])
        self._within(node.body, {name: name for name in _bound(node.body)}, is_class=True)
        return node

    def visit_ListComp(self, node: ast.ListComp) -> ast.AST:
        return self._comprehension(node)

    def visit_SetComp(self, node: ast.SetComp) -> ast.AST:
        return self._comprehension(node)

    def visit_DictComp(self, node: ast.DictComp) -> ast.AST:
        return self._comprehension(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.AST:
        return self._comprehension(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        node.name = self._called(node.name)
        kept = {*_parameters(node), *_kept(node)}
        own = {name: name for name in kept}
        if not _looks_at_names(node):
            own |= {each: self._fresh() for each in _bound(node.body) if each not in kept}
        around = [*node.decorator_list, node.args, *([node.returns] if node.returns else [])]
        self._visit_all(around)
        self._within(node.body, own)
        return node

    def _comprehension(self, node: _Comprehension) -> ast.AST:
        targets = [each.target for each in node.generators]
        names = dict.fromkeys(
            each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)
        )
        first = node.generators[0]
        self.visit(first.iter)  # which knows only the names around the comprehension
        first.iter, source = ast.Constant(value=None), first.iter
        self._within(ast.iter_child_nodes(node), {name: self._fresh() for name in names})
        first.iter = source
        return node

    def _within(
        self, body: Iterable[ast.AST], own: dict[str, str], *, is_class: bool = False
    ) -> None:
        self._scopes.append((is_class, own))
        self._visit_all(body)
        self._scopes.pop()

    def _visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in list(nodes):
            self.visit(node)

    def _called(self, name: str) -> str:
        """Functions in a class do not see its names, only the class itself does."""
        for depth, (is_class, own) in enumerate(reversed(self._scopes)):
            if name in own and not (is_class and depth):
                return own[name]
        return name

    def _fresh(self) -> str:
        self._count += 1
        return f"<{self._count}>"


def _parameters(node: _Function) -> list[str]:
    given = node.args
    rest = [each for each in (given.vararg, given.kwarg) if each]
    return [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs, *rest)]


def _bound(body: Iterable[ast.AST]) -> dict[str, None]:
    """The names a body gives a meaning to, in the order of their coming."""
    names: dict[str, None] = {}
    for node in _of_this_scope(body):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                names[name] = None
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names[name] = None
            case (
                ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
                | ast.MatchMapping(rest=str(name))
            ):
                names[name] = None
            case _:
                pass
    return names


def _kept(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """Names that are not the function's own to call otherwise."""
    for node in _of_this_scope(function.body):
        if isinstance(node, ast.Global | ast.Nonlocal):
            yield from node.names if isinstance(node, ast.Global) else ()
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (each.asname or each.name.partition(".")[0] for each in node.names)
        elif isinstance(node, ast.ClassDef):
            yield node.name


def _looks_at_names(function: ast.AST) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id in _LOOKS_AT_NAMES for node in ast.walk(function)
    )


def _of_this_scope(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All nodes in order, without what is inside of another scope."""
    for node in body:
        yield node
        if not isinstance(node, _SCOPES):
            yield from _of_this_scope(ast.iter_child_nodes(node))
        elif not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _assigned_through(node)


def _assigned_through(node: ast.AST) -> Iterator[Any]:
    """`:=` in a comprehension gives a meaning to a name around it."""
    for each in ast.walk(node):
        if isinstance(each, ast.NamedExpr) and not isinstance(node, ast.Lambda):
            yield each.target
