"""Special paths: credentials, generated files, and files that are executed or set policy.

No tool reads or writes credentials. Changing a protected file always needs approval. The sandbox
uses the same lists to hide these paths. A pattern is one or more names separated by `/` and matches
at any depth. A trailing `/` matches a folder, or a file of that name, and everything below. Case
and Unicode composition are ignored.
"""

import json
import re
from collections.abc import Sequence
from fnmatch import translate
from functools import cache
from typing import TypeAlias

from rookery import NAME, PROJECT_FOLDER
from rookery.core.text.characters import folded, folded_names

_KEYS = """
    .ssh .aws .azure .boto .bitcoin .cargo/credentials .cargo/credentials.toml
    .composer/auth.json .config/age .config/composer/auth.json .config/containers/auth.json
    .config/doctl .config/gcloud .config/gh .config/git/credentials .config/glab-cli
    .config/heroku .config/hub .config/netlify .config/op .config/pip/pip.conf .config/rclone
    .config/sops .config/stripe .cache/huggingface/token .claude.json .claude/.credentials.json
    .codex/auth.json .databrickscfg .docker .electrum .fly .gem/credentials
    .gemini/oauth_creds.json .git-credentials .gnupg .gradle/gradle.properties
    .huggingface/token .kaggle .kube .local/share/gem/credentials .m2/settings.xml
    .m2/settings-security.xml .my.cnf .netrc .npmrc .oci .pgpass .pypirc .s3cfg .terraform.d
    .vault-token .Xauthority .ICEauthority
"""
_KEY_RINGS = """
    .1password .config/Bitwarden .config/keepassxc .local/share/keyrings .local/share/kwalletd
    .password-store .pki Library/Keychains
"""
_BROWSERS = """
    .config/BraveSoftware .config/chromium .config/google-chrome .config/microsoft-edge
    .config/opera .config/vivaldi .librewolf .mozilla .thunderbird .var/app/com.brave.Browser
    .var/app/com.google.Chrome .var/app/org.chromium.Chromium .var/app/org.mozilla.firefox
    snap/chromium snap/firefox Library/Cookies Library/Safari
"""
_HISTORIES = """
    .bash_history .history .irb_history .local/share/fish/fish_history .mysql_history
    .node_repl_history .psql_history .python_history .rediscli_history .sh_history
    .sqlite_history .zhistory .zsh_history .zsh_sessions
"""
_MAC_APPS = (
    "Arc|1Password|Bitwarden|BraveSoftware|Chromium|Firefox|Google/Chrome|Microsoft Edge|Vivaldi"
)
CREDENTIAL_PLACES: tuple[str, ...] = (
    *f"{_KEYS} {_KEY_RINGS} {_BROWSERS} {_HISTORIES}".split(),
    *(f"Library/Application Support/{app}" for app in _MAC_APPS.split("|")),
)
"""Relative to the home folder."""

SYSTEM_CREDENTIALS: tuple[str, ...] = (
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/krb5.keytab",
    "/etc/master.passwd",
    "/etc/security/opasswd",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/ssl/private",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/run/secrets",
    "/var/run/secrets",
)
_HOST_KEYS = ("etc", "ssh"), "ssh_host_"
_SECRET_FILES = """
    .env .env.* .env-* *.env .envrc .netrc .npmrc .yarnrc* .pypirc pip.conf .pgpass .htpasswd
    .git-credentials *.pem *.key *.p12 *.pfx *.jks *.keystore *.kdbx *.asc *.gpg *.tfvars *.tfstate
    id_rsa id_dsa id_ecdsa id_ed25519 credentials credentials.* secrets.*
"""


def holds_secrets(path: str) -> bool:
    """Whether a project file usually contains secrets, judging by its name."""
    return _secret().match(path.rpartition("/")[2].lower()) is not None


@cache
def _secret() -> re.Pattern[str]:
    return re.compile("|".join(map(translate, _SECRET_FILES.split())))


_LOCK_FILES = """
    package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lockb bun.lock composer.lock
    Gemfile.lock Cargo.lock poetry.lock uv.lock pdm.lock Pipfile.lock go.sum flake.lock mix.lock
    pubspec.lock Podfile.lock packages.lock.json gradle.lockfile deno.lock
"""
_MADE = (".min.js", ".min.css", ".min.mjs", ".js.map", ".css.map", ".snap", "_pb2.py", ".pb.go")


def looks_generated(path: str) -> bool:
    """Whether a program usually writes the file, judging by its name."""
    name = path.rpartition("/")[2]
    return name in _LOCK_FILES.split() or name.endswith(_MADE)


def credential(path: str, home: str, own: Sequence[str] = ()) -> bool:
    """Whether an absolute path is a credential place or inside one; `own` are the product's
    folders."""
    names = folded_names(path)
    folder, beginning = _HOST_KEYS
    if names[:2] == folder and names[2:] and names[2].startswith(beginning):
        return True
    places = _places(home, tuple(own))
    return any(names[:depth] in places for depth in range(1, len(names) + 1))


def near_credentials(path: str, home: str, own: Sequence[str] = ()) -> bool:
    """Whether a folder may contain credential places, or is inside one."""
    names = folded_names(path)
    host_keys = (*_HOST_KEYS[0], _HOST_KEYS[1])
    places = (host_keys, *_places(home, tuple(own)))
    return any(place[: len(names)] == names[: len(place)] for place in places)


@cache
def _places(home: str, own: tuple[str, ...]) -> frozenset[tuple[str, ...]]:
    at_home = [f"{home}/{place}" for place in CREDENTIAL_PLACES]
    return frozenset(map(folded_names, (*at_home, *SYSTEM_CREDENTIALS, *own)))


IGNORE_FILES = (f".{NAME}ignore", ".rooignore")
"""They list what is hidden from the agent."""

RUN_BY_MAKE = "make runs it"
RUN_BY_NPM = "npm runs its scripts"
RUN_BY_BUILDS = "builds and task runners run it"
ORDINARY_BY_HAND = (RUN_BY_MAKE, RUN_BY_BUILDS)
"""Interactive edits of these need no extra approval; auto-approved runs ask."""
OF_BUILDS = (RUN_BY_MAKE, RUN_BY_NPM, RUN_BY_BUILDS)
"""Builds write these files themselves, so commands may."""
LIKE_A_REPOSITORY = "git treats its folder as a repository and runs programs from it"
OBEYED_BY_GIT = "git reads hooks or settings from it"
UNCHECKED = "it could not be checked against the list of protected files"

_OWN = f"it decides what {NAME} may do"
_WORKTREES = "it decides which files are copied into worktrees"
_INSTRUCTIONS = "agents follow instructions in it"
_GIT = "git runs it"
_EDITOR = "editors run it"
_SHELL = "shells and programs read settings from it"
_AUTOMATION = "CI runs it"
_TOOLS = "tools run it automatically"

ALWAYS: tuple[tuple[str, str], ...] = (
    (_OWN, ".rookeryignore .rooignore .rooprotected .roomodes .roo/ .orchestration/"),
    (_OWN, "active_intents.yaml .intentignore agent_trace.jsonl"),
    (_WORKTREES, ".worktreeinclude"),
    (_INSTRUCTIONS, "AGENTS.md AGENTS.override.md AGENT.md CLAUDE.md CLAUDE.local.md GEMINI.md"),
    (_INSTRUCTIONS, ".cursorrules .clinerules*/ .roorules*/ .windsurfrules .github/instructions/"),
    (_INSTRUCTIONS, ".github/copilot-instructions.md .github/prompts/ .github/agents/"),
    (_INSTRUCTIONS, ".claude/ .cursor/ .gemini/ .codex/ .cline/ .continue/ .windsurf/ .aider*"),
    (_INSTRUCTIONS, ".kiro/ .qwen/ .opencode/ .amazonq/ .augment/ .junie/ .kilocode/ .goose*/"),
    (_INSTRUCTIONS, ".mcp.json mcp.json"),
    (_GIT, ".git/ .gitmodules .gitattributes .gitconfig .githooks/"),
    (_GIT, "hooks/applypatch-msg hooks/pre-applypatch hooks/post-applypatch hooks/pre-commit"),
    (_GIT, "hooks/pre-merge-commit hooks/prepare-commit-msg hooks/commit-msg hooks/post-commit"),
    (_GIT, "hooks/pre-rebase hooks/post-checkout hooks/post-merge hooks/pre-push hooks/update"),
    (_GIT, "hooks/pre-receive hooks/post-receive hooks/proc-receive hooks/post-update"),
    (_GIT, "hooks/reference-transaction hooks/push-to-checkout hooks/pre-auto-gc"),
    (_GIT, "hooks/post-rewrite hooks/sendemail-validate hooks/fsmonitor-watchman"),
    (_GIT, "hooks/post-index-change hooks/p4-*"),
    (_EDITOR, ".vscode/ .idea/ *.code-workspace .devcontainer/ .devcontainer.json .zed/ .fleet/"),
    (_EDITOR, ".exrc .vimrc .nvimrc .nvim.lua .dir-locals.el"),
    (_SHELL, ".bashrc .bash_profile .bash_login .bash_logout .profile .zshrc .zprofile .zshenv"),
    (_SHELL, ".zlogin .zlogout .kshrc .cshrc .tcshrc config.fish .envrc .env*"),
    (_SHELL, ".ripgreprc .inputrc .npmrc .yarnrc* .pypirc pip.conf .netrc"),
    (_AUTOMATION, ".github/workflows/ .github/actions/ .gitea/workflows/ .forgejo/workflows/"),
    (_AUTOMATION, ".gitlab-ci.y*ml .gitlab/ci/ .circleci/ .travis.y*ml .buildkite/ Jenkinsfile*"),
    (_AUTOMATION, "bitbucket-pipelines.y*ml azure-pipelines*.y*ml azure-pipelines/"),
    (_AUTOMATION, ".azure-pipelines/ .azuredevops/ appveyor.y*ml .appveyor.y*ml .drone.y*ml"),
    (_AUTOMATION, ".drone.jsonnet .drone.star .woodpecker.y*ml .woodpecker/ .cirrus.y*ml"),
    (_AUTOMATION, ".cirrus.star .semaphore/ .teamcity/ bamboo-specs/ .tekton/ .builds/ .build.yml"),
    (_AUTOMATION, "buildspec*.y*ml cloudbuild*.y*ml codemagic.y*ml wercker.yml action.y*ml"),
    (_AUTOMATION, "netlify.toml render.yaml"),
    (_AUTOMATION, ".zuul.yaml .zuul.d/ zuul.yaml zuul.d/ screwdriver.yaml .scrutinizer.yml"),
    (_AUTOMATION, ".husky/ .pre-commit-config.y*ml .pre-commit-hooks.yaml lefthook*.y*ml"),
    (_AUTOMATION, ".lefthook*.y*ml lefthook*.toml .lefthook/ .overcommit.yml .simple-git-hooks.*"),
    (_TOOLS, "sitecustomize.py usercustomize.py *.pth .yarn/plugins/ .yarn/releases/"),
    (_TOOLS, ".hg/hgrc .hg/hgrc-not-shared .sl/config .jj/repo/config.toml"),
    (_TOOLS, ".Rprofile .Renviron .irbrc .pryrc .pdbrc .ghci .ocamlinit .octaverc"),
    (_TOOLS, ".pnpmfile.cjs .pnpmfile.mjs .cargo/config .cargo/config.toml .gdbinit .lldbinit"),
    (RUN_BY_NPM, "package.json"),
    (RUN_BY_MAKE, "Makefile GNUmakefile"),
    (RUN_BY_BUILDS, "Justfile .justfile Taskfile*.y*ml noxfile.py tox.ini tox.toml dodo.py"),
    (RUN_BY_BUILDS, "fabfile.py mise.toml mise.*.toml .mise.toml .mise.*.toml .mise/ .mvn/"),
    (
        RUN_BY_BUILDS,
        ".config/mise.toml .config/mise/ mise/config.toml .mise-tasks/ mise-tasks/ devbox.json",
    ),
    (RUN_BY_BUILDS, "flake.nix shell.nix default.nix devenv.nix mvnw mvnw.cmd pom.xml build.xml"),
    (RUN_BY_BUILDS, "gradlew gradlew.bat *.gradle *.gradle.kts gradle/wrapper/ gradle.properties"),
    (RUN_BY_BUILDS, "build.sbt build.sc CMakeLists.txt CMakePresets.json SConstruct wscript"),
    (RUN_BY_BUILDS, "meson.build .bazelrc WORKSPACE.bazel MODULE.bazel BUILD.bazel Snakefile"),
    (RUN_BY_BUILDS, "Rakefile rakelib/ Gemfile Podfile Fastfile Vagrantfile Brewfile Earthfile"),
    (RUN_BY_BUILDS, "Tiltfile Procfile build.rs build.zig rust-toolchain rust-toolchain.toml"),
    (RUN_BY_BUILDS, "magefile.go magefiles/ Gruntfile.* gulpfile.* Jakefile* Cakefile wireit.json"),
    (RUN_BY_BUILDS, "*.mk CMakeUserPresets.json Tupfile xmake.lua conanfile.py hatch_build.py"),
    (
        RUN_BY_BUILDS,
        "Guardfile Thorfile bb.edn build.mill .jvmopts .sbtopts .air.toml skaffold.yaml",
    ),
    (
        RUN_BY_BUILDS,
        "Directory.Build.props Directory.Build.targets .buckconfig pants.toml dagger.json",
    ),
)
WHEN_NEW: tuple[tuple[str, str], ...] = ((_TOOLS, "conftest.py setup.py"),)
"""Ordinary to edit, but run automatically once they exist."""

PARTS_OF_A_REPOSITORY = ("HEAD", "objects", "refs")

Rows: TypeAlias = tuple[tuple[str, str], ...]


def protected(path: str, *, new: bool) -> str:
    """Why changing the file always needs approval; empty if it does not.

    `new` if the file does not exist yet.
    """
    try:
        return _why(folded_names(path), new=new)
    except Exception:
        return UNCHECKED  # whatever cannot be matched must not pass for harmless


def completes_repository(named: str, there: Sequence[str]) -> bool:
    """Whether a folder is a bare git repository, or becomes one with an entry of that name.
    `there` are the repository parts it already has."""
    return {folded(name) for name in (named, *there)} >= set(map(folded, PARTS_OF_A_REPOSITORY))


def scripts_changed(old: str, new: str) -> bool:
    """Whether the scripts in package.json change; unreadable content counts as changed."""
    try:
        return _scripts(old) != _scripts(new)
    except (ValueError, RecursionError):
        return True


def _scripts(text: str) -> object:
    content = json.loads(text) if text.strip() else {}
    if not isinstance(content, dict):
        raise ValueError("it is not an object")
    return content.get("scripts") or {}


def _why(names: Sequence[str], *, new: bool) -> str:
    if PROJECT_FOLDER in names:
        return _OWN
    path = "/".join(names)
    return _reason(ALWAYS, path) or (_reason(WHEN_NEW, path) if new else "")


def _reason(rows: Rows, path: str) -> str:
    found = _expression(rows).search(path)
    return _reasons(rows)[found.lastindex - 1] if found and found.lastindex else ""


@cache
def _reasons(rows: Rows) -> list[str]:
    return list(dict.fromkeys(why for why, _ in rows))


@cache
def _expression(rows: Rows) -> re.Pattern[str]:
    """All patterns as one regular expression with a group per reason, for speed."""
    groups = (
        "|".join(
            _pattern(one) for why, patterns in rows if why == reason for one in patterns.split()
        )
        for reason in _reasons(rows)
    )
    return re.compile("(?:^|/)(?:" + "|".join(f"({group})" for group in groups) + ")")


def _pattern(pattern: str) -> str:
    names = "/".join(folded_names(pattern))
    return re.escape(names).replace(r"\*", "[^/]*") + ("(?:/|$)" if pattern.endswith("/") else "$")
