"""Rules for commands that begin with the same words: what they say, and what they cover."""

from collections.abc import Iterator

import pytest

from rookery.commands.prefixes import prefix_in, prefix_table
from rookery.commands.program_tables import effects, tool_table
from rookery.commands.rules import CommandRules
from rookery.commands.wrappers import SHELLS
from rookery.core.asks import Decision
from rookery.core.blocks import ToolCall
from rookery.engine.ports.actions import Action
from support.actions import never
from support.command_project import Bench, bench
from support.each_row import each_row

pytestmark = pytest.mark.anyio

PROGRAMS = """
pytest mypy ruff cargo go npm pnpm yarn bun make git rm python python3 node sh bash env xargs
timeout tox mvn curl docker sudo npx deno nice find uv poetry tsc jest vitest eslint stylelint
phpunit rspec ctest golangci-lint dotnet swift
"""


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = bench(tmp_path_factory.mktemp("project"))
    for name in PROGRAMS.split():
        (made.programs / name).write_text("#!/bin/sh\n", encoding="utf-8")
        (made.programs / name).chmod(0o755)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PATH", f"{made.programs}:/usr/bin:/bin")
        yield made


OFFERED = {
    "pytest": "pytest",
    "pytest -q tests/test_a.py -k 'a or b'": "pytest",
    "pytest -x -n2 --maxfail=1 | tail -20": "pytest",
    "pytest -p no:cacheprovider tests": "pytest",
    "cd src && pytest -q 2>&1 | grep FAILED": "pytest",
    "pytest @WORK@/src": "pytest",
    "ruff check --fix .": "ruff check",
    "cargo test --release some_test -- --nocapture": "cargo test",
    "go test ./... -run TestA -count=1": "go test",
    "npm test": "npm test",
    "npm run test:unit -- --watch=false": "npm run test:unit",
    "pnpm run lint": "pnpm run lint",
    "npm test && npm test": "npm test",
    "python3 -m pytest -q tests 2>&1 | tail -5": "python3 -m pytest",
    "python3 -m unittest -q": "python3 -m unittest",
    "python -m ruff check .": "python -m ruff check",
    "uv run pytest -x": "uv run pytest",
    "poetry run mypy src": "poetry run mypy",
    "make test": "make test",
    "make test -j4 -k": "make test",
    "cd src && make lint": "make lint",
    "npm test -- --coverage src/a.test.js": "npm test",
    "go test -v ./...": "go test",
    "vitest run --coverage": "vitest run",
    "tsc --noEmit -p src": "tsc",
}


@pytest.mark.parametrize(("line", "prefix"), OFFERED.items(), ids=list(OFFERED))
def test_a_rule_is_offered_for_the_words_that_matter(here: Bench, line: str, prefix: str):
    assert prefix_in(here.judge(line.replace("@WORK@", str(here.root)), ""), here.root) == prefix


NOT_OFFERED = [
    "python3 -m pytest /etc",
    "python3 -m pytest -c other.ini",
    "python3 -m pip install x",
    "python3 -m unittest discover -s /etc",
    "python3 -m http.server",
    "python3 -m cargo test",
    "python3 -c 1 -m pytest",
    "python3 -I -m pytest",
    "python3 -m",
    "python3 test.py",
    "node test.js",
    "bash test.sh",
    "sh -c pytest",
    "env pytest",
    "A=1 pytest",
    "timeout 60 pytest",
    "nice pytest",
    "sudo pytest",
    "uv run python3 -m pytest",
    "uv run --with x pytest",
    "uv run test.py",
    "uv pip install x",
    "uv sync",
    "npx jest",
    "find . | xargs pytest",
    "git push",
    "git push origin main",
    "rm -r build",
    "make",
    "make test deploy",
    "make -j4 test",
    "make test A=1",
    "make test SHELL=./x",
    "make test -C sub",
    "make test -Csub",
    "make test -f other.mk",
    "make test --file=other.mk",
    "make test --eval=x",
    "make ../x",
    "mvn test",
    "tox -e py",
    "docker run x",
    "curl https://example.com",
    "cargo run",
    "cargo install x",
    "cargo +nightly test",
    "cargo",
    "go run main.go",
    "go generate",
    "npm install",
    "npm publish",
    "npm exec test",
    "npm --prefix ../x test",
    "npm run",
    "npm run node -- -e 1",
    "npm run ../x",
    "yarn run node",
    "bun run x.ts",
    "./pytest",
    "/usr/bin/pytest",
    "pytest && rm x",
    "pytest; cargo test",
    "pytest | tee log.txt",
    "pytest | xargs rm",
    "pytest | sh",
    "pytest > out.txt",
    "pytest < notes.txt",
    "pytest $(id)",
    "pytest `id`",
    "pytest $HOME",
    "pytest &",
    "pytest ../elsewhere",
    "pytest /etc",
    "pytest ~/x",
    "pytest src/../../x",
    "pytest @args.txt",
    "pytest *.py",
    "pytest --basetemp=src",
    "pytest --basete=src",
    "pytest --BaseTemp=src",
    "pytest '--basetemp=src'",
    "pytest link_out",
    "pytest --cov-report=html:/etc/x",
    "pytest --basetemp src",
    "pytest -c other.ini",
    "pytest -cother.ini",
    "pytest -qc other.ini",
    "pytest --rootdir=/etc",
    "pytest --junitxml=/etc/x",
    "pytest --pastebin=all",
    "pytest --junitxml=../x",
    "cd .. && pytest",
    "cd /tmp && pytest",
    "mypy --python-executable ./x",
    "ruff check -osrc/a.py",
    "ruff check --config x.toml",
    "cargo test --manifest-path ../x/Cargo.toml",
    "cargo test --config x",
    "cargo test --target-dir src",
    "go test -exec ./x ./...",
    "go test --exec ./x ./...",
    "go test -toolexec=./x",
    "go build -o src/main.go",
    "npm test --prefix sub",
    "npm test --pref sub",
    "npm test -C sub",
    "npm run lint --script-shell=./x",
    "npm test --registry=https://example.com",
    "pytest -o addopts=--basetemp=src",
    "pytest --override-ini=addopts=--basetemp=src",
    "pytest -k 'x /etc'",
    "pytest -d --tx ssh=example.com",
    "tsc -outFile src/a.py",
    "tsc --outfile src/a.py",
    "jest --global-setup=./x.js",
    "jest --filter=./x.js",
    "vitest run --typecheck.checker=./x",
    "vitest run --coverage.reportsDirectory=src",
    "eslint -f ./x.js src",
    "stylelint --customSyntax=./x.js",
    "phpunit --prepend x.php",
    "rspec -O other",
    "ctest --launch -- touch x",
    "ctest -T Submit",
    "go test -test.coverprofile=src/a.py ./...",
    "golangci-lint run --new-from-rev=--output=src/a.py",
    "dotnet build --property:CustomAfterMicrosoftCommonTargets=x.targets",
    "dotnet build --logger:X,x.dll",
    "swift build -Xswiftc -load-plugin-executable",
    "pnpm test --config.script-shell=./x",
    "pnpm run lint '$(id)'",
    "npm run lint -- --rulesdir=./x",
    "npm test -- -e 1",
]


@each_row("line", NOT_OFFERED)
def test_no_rule_is_offered_where_it_would_reach_further(here: Bench, line: str):
    assert prefix_in(here.judge(line, ""), here.root) == ""


RULES = ("pytest", "cargo test", "npm run lint", "make test", "uv run pytest")


async def decided(here: Bench, line: str) -> Decision:
    rules = CommandRules(allow=[], deny=[], trusted=True, prefixes=lambda: RULES, root=here.root)
    action = Action(title="", command=line, judgement=here.judge(line, ""), perform=never)
    return (await rules.before(ToolCall(id="c", name="execute_command"), action)).decision


RULED = ("pytest ", "cd", "cargo test", "make test", "uv run")
COVERED = [
    *("pytest -q tests", "cargo test x", "npm run lint -- --fix", "pytest | tail -3"),
    *("cargo test && pytest -q", "cd src && pytest", "make test -s", "uv run pytest -x tests"),
]


@each_row("line", COVERED)
async def test_a_rule_covers_other_arguments(here: Bench, line: str):
    assert await decided(here, line) is Decision.ALLOW


@each_row(
    "line",
    [
        *("cargo build", "cargo publish", "cargo", "npm run lint:all", "npm run", "npm test"),
        *("pytest && cargo build", "pytest; rm x", "pytest-3", "python -m pytest", "env pytest"),
        *("make", "make lint", "make install", "uv run mypy", "uv run x.py"),
        *(line for line in NOT_OFFERED if line.startswith(RULED)),
    ],
)
async def test_a_rule_covers_nothing_else(here: Bench, line: str):
    assert await decided(here, line) is not Decision.ALLOW


def test_no_program_of_the_table_runs_what_its_arguments_say():
    others = {*SHELLS, *tool_table().interpreters.split(), *effects().wrappers, *effects().options}
    table = prefix_table()
    assert not {name for name, row in table.items() if not row.runs} & {
        *others,
        "git",
        "npx",
        "curl",
    }
    assert all({*row.runs} <= {*table} and not row.commands for row in table.values() if row.runs)
