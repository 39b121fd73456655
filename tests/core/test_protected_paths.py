import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.core.protected_paths import (
    ALWAYS,
    RUN_BY_BUILDS,
    RUN_BY_MAKE,
    RUN_BY_NPM,
    UNCHECKED,
    WHEN_NEW,
    completes_repository,
    protected,
    scripts_changed,
)
from support.each_row import each_row

PROTECTED = """
.rookery/settings.toml .rookery .rookeryignore .rooignore .roomodes .roo/rules/a.md .rooprotected
.orchestration/active_intents.yaml .intentignore agent_trace.jsonl
.rookery/agent-manager.json .rookery/setup-script .rookery/setup-script.sh .rookery/run-script.sh
.roo/agent-manager.json .roo/setup-script .roo/setup-script.ps1 .roo/run-script .worktreeinclude
AGENTS.md AGENT.md CLAUDE.md GEMINI.md .cursorrules .clinerules .clinerules-code .clinerules/a.md
.roorules .roorules-ask .windsurfrules .github/copilot-instructions.md .cursor/mcp.json
.claude/settings.json .mcp.json mcp.json
.git .git/config .git/hooks/pre-commit .git/modules/x/config .gitmodules .gitattributes .gitconfig
hooks/pre-commit tools/hooks/post-checkout .githooks/pre-push
.vscode/settings.json .vscode .idea/workspace.xml app.code-workspace .devcontainer/Dockerfile
.zed/settings.json .fleet/run.json
.bashrc .bash_profile .profile .zshrc .zprofile .zshenv .envrc .env .env.local .ripgreprc .inputrc
.npmrc .yarnrc .yarnrc.yml .pypirc pip.conf .netrc
.github/workflows/ci.yml .gitlab-ci.yml .husky/pre-commit .pre-commit-config.yaml lefthook.yml
Jenkinsfile azure-pipelines.yml .gitlab-ci.yaml .gitlab/ci/test.yml Jenkinsfile.release
azure-pipelines.yaml .azure-pipelines/build.yml appveyor.yml .drone.yml .drone.star .woodpecker.yaml
.woodpecker/test.yml .cirrus.yml .semaphore/semaphore.yml .teamcity/settings.kts buildspec.yml
cloudbuild.yaml .tekton/push.yaml .builds/debian.yml action.yml lefthook-local.yml .lefthook.yaml
.pre-commit-hooks.yaml .overcommit.yml
Justfile .justfile Taskfile.yml Taskfile.dist.yaml noxfile.py tox.ini tox.toml .mvn/extensions.xml
.mvn/jvm.config mvnw pom.xml mise.toml .mise.toml mise.local.toml .config/mise/config.toml flake.nix
shell.nix default.nix build.gradle settings.gradle.kts gradlew gradle/wrapper/gradle-wrapper.jar
CMakeLists.txt Rakefile Gemfile Vagrantfile build.rs rust-toolchain.toml gulpfile.js Gruntfile.cjs
SConstruct meson.build magefile.go dodo.py
rules.mk CMakeUserPresets.json conanfile.py hatch_build.py Guardfile bb.edn .sbtopts netlify.toml
Directory.Build.targets .hg/hgrc .sl/config .jj/repo/config.toml .Rprofile .irbrc .pdbrc .ghci
sitecustomize.py usercustomize.py x.pth .yarn/plugins/a.cjs .pnpmfile.cjs package.json Makefile
"""
ORDINARY = """
README.md src/app.py src/hooks/useThing.ts hooks/useColor.ts docs/agents.txt my.git/readme github.md
gitignore .gitignore .gitkeep .github/ISSUE_TEMPLATE/bug.md .github/dependabot.yml env.py src/env/a
src/environment.ts .eslintrc.json .prettierrc tsconfig.json pyproject.toml package-lock.json
packages/a.json makefile.md Makefile.am setup.cfg src/setup.ts conftest.txt paths/x.pthx
src/build.rs.txt src/taskfile.md justfile.md lib/mise.ts src/build.py gradle/readme.md src/pom.ts
Dockerfile docker-compose.yml Cargo.toml go.mod composer.json tasks.py src/action.py default.json
config/pip.config vscode/a idea.txt roo/x.md rookery/x.py src/rookery/app.py agents/x.py
worktreeinclude agent-manager.json setup-script.sh
AGENTS.md.txt docs/CLAUDE-notes.md jenkins/file .editorconfig .env/lib/python/site.py
hooks/update.py
"""


@each_row("new", [True, False])
@each_row("variant", ["{}", "deep/er/{}", "./{}", "/home/ada/{}"])
def test_the_table_applies_at_any_depth(variant: str, new: bool):
    missed = [p for p in PROTECTED.split() if not protected(variant.format(p), new=new)]
    assert missed == []


@each_row(
    "disguise",
    [
        pytest.param(str.swapcase, id="case"),
        pytest.param(str.upper, id="upper case"),
        pytest.param(lambda path: unicodedata.normalize("NFD", path), id="composition"),
        pytest.param(lambda path: path.replace("s", "\u017f"), id="another s"),
        pytest.param(lambda path: path.replace("k", "\u212a"), id="another k"),
        pytest.param(lambda path: f"{path}. .", id="dots and spaces at the end"),
        pytest.param(lambda path: f"{path}::$DATA", id="stream"),
        pytest.param(lambda path: path.replace("/", "//"), id="slashes"),
    ],
)
def test_no_spelling_gets_around_the_table(disguise: Callable[[str], str]):
    paths = PROTECTED.split()
    assert [path for path in paths if not protected(disguise(path), new=False)] == []
    assert [path for path in paths if not protected(disguise(path), new=True)] == []


@each_row("new", [True, False])
def test_ordinary_files_are_not_protected(new: bool):
    assert [path for path in ORDINARY.split() if protected(path, new=new)] == []


@each_row("path", ["setup.py", "tests/conftest.py", "CONFTEST.PY"])
def test_files_that_run_automatically_are_protected_only_when_new(path: str):
    assert protected(path, new=True)
    assert not protected(path, new=False)


def test_a_path_that_cannot_be_matched_is_protected():
    assert protected(None, new=False) == UNCHECKED  # type: ignore[arg-type]


def test_makefiles_packages_and_build_files_have_their_own_reasons():
    assert protected("sub/GNUmakefile", new=False) == RUN_BY_MAKE
    assert protected("web/package.json", new=False) == RUN_BY_NPM
    assert protected("tools/justfile", new=True) == RUN_BY_BUILDS


def test_every_reason_reads_as_a_reason():
    reasons = [why for why, _ in ALWAYS + WHEN_NEW]
    assert all(why[0].islower() or why.startswith("CI ") for why in reasons)
    assert not any(why.endswith(".") for why in reasons)


@given(st.text(max_size=40))
def test_any_path_can_be_checked(path: str):
    assert isinstance(protected(path, new=True), str)
    assert protected(f"{path}/.git/config", new=False)


@each_row(
    ("named", "there", "complete"),
    [
        ("config", ["HEAD", "objects", "refs"], True),
        ("HEAD", ["objects", "refs"], True),
        ("head", ["objects", "refs"], True),
        ("refs", ["HEAD", "objects"], True),
        ("config", ["HEAD", "objects"], False),
        ("HEAD", [], False),
    ],
)
def test_a_bare_repository_is_recognized_by_its_parts(named: str, there: list[str], complete: bool):
    assert completes_repository(named, there) is complete


@each_row(
    ("old", "new", "changed"),
    [
        ('{"scripts": {"a": "b"}}', '{"scripts": {"a": "b"}, "version": "2"}', False),
        ('{"scripts": {"a": "b", "c": "d"}}', '{"scripts": {"c": "d", "a": "b"}}', False),
        ('{"scripts": {"a": "b"}}', '{"scripts": {"a": "c"}}', True),
        ('{"scripts": {"a": "b"}}', '{"scripts": {"a": "b", "postinstall": "x"}}', True),
        ("{}", '{"scripts": {}}', False),
        ("", '{"name": "x"}', False),
        ("", '{"scripts": {"preinstall": "x"}}', True),
        ("{}", "no json", True),
        ("[]", "[]", True),
        ("{}", "[" * 100_000, True),
        ('{"scripts": {"a": "b"}}', '{"scripts": {"a": "b"}, "scripts": {"a": "c"}}', True),
    ],
)
def test_package_scripts_are_compared_by_content(old: str, new: str, changed: bool):
    assert scripts_changed(old, new) is changed
