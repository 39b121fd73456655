"""Git's commands that only read, versions of tools, and package managers asked what is installed.

Some tools run what a project names before they do anything: those are not asked for their version
where such files are. Not listed are tools that always look for a project's own copy of themselves.
"""

from rookery.commands.tables.read_only_program import Reader

_LOG = """
    -n+NUM -# --max-count=NUM --skip=NUM --oneline --graph --decorate[=TEXT] --no-decorate --all
    --branches[=TEXT] --tags[=TEXT] --remotes[=TEXT] --stat[=TEXT] --shortstat --numstat --summary
    --name-only --name-status --dirstat[=TEXT] -p -u --patch -s --no-patch --raw -U+NUM
    --unified=NUM --patch-with-stat --since=TEXT --until=TEXT --after=TEXT --before=TEXT
    --author=TEXT --committer=TEXT --grep=TEXT -i -E -F -P --all-match --invert-grep
    --format=FORMAT --pretty[=FORMAT] --abbrev-commit --no-abbrev-commit --abbrev[=NUM]
    --date=TEXT --relative-date --merges --no-merges --first-parent --reverse --follow --topo-order
    --date-order --author-date-order --full-history --simplify-merges --left-right --cherry-pick
    --cherry-mark --cherry --ancestry-path --boundary --parents --children -S+TEXT -G+TEXT
    --pickaxe-regex --pickaxe-all --diff-filter=TEXT -M -C -B --find-renames[=TEXT]
    --find-copies[=TEXT] --no-renames -w -b -a --text --ignore-all-space --ignore-space-change
    --ignore-blank-lines --ignore-space-at-eol --word-diff[=TEXT] --word-diff-regex=TEXT
    --color-words[=TEXT] --color[=TEXT] --no-color --color-moved[=TEXT] --minimal --patience
    --histogram --diff-algorithm=TEXT --function-context -W --inter-hunk-context=NUM --full-index
    --binary --exit-code -R -z --no-ext-diff --no-textconv --no-prefix --relative[=PATH] --cc -c -m
    --diff-merges=TEXT --show-pulls --source --no-walk[=TEXT] --walk-reflogs -g --no-notes --check
    --no-mailmap --mailmap --use-mailmap --encoding=TEXT --expand-tabs[=NUM] --clear-decorations
    --ignore-submodules
"""

_REFLOG = """
    -n+NUM -# --max-count=NUM --skip=NUM --oneline --decorate[=TEXT] --no-decorate --all
    --branches[=TEXT] --tags[=TEXT] --remotes[=TEXT] -s --no-patch --since=TEXT --until=TEXT
    --after=TEXT --before=TEXT --author=TEXT --committer=TEXT --grep=TEXT -i -E -F -P --all-match
    --invert-grep --format=FORMAT --pretty[=FORMAT] --abbrev-commit --no-abbrev-commit
    --abbrev[=NUM] --date=TEXT --relative-date --merges --no-merges --first-parent --color[=TEXT]
    --no-color --name-only --name-status -z
"""
"""Without patches: a reflog cannot be told to leave out the programs that show them."""

_REFS = """
    --sort=FORMAT --format=FORMAT --contains=REV --no-contains=REV --merged[=REV] --no-merged[=REV]
    --points-at=REV --color[=TEXT] --no-color -i --ignore-case --column[=TEXT] --no-column
"""

GIT_READERS: dict[str, Reader] = {
    "git status": Reader(
        flags="""
            -s -b -u[=TEXT] -z --short --branch --porcelain[=TEXT] --long --show-stash
            --untracked-files[=TEXT] --ignored[=TEXT] --ahead-behind --no-ahead-behind
            --renames --no-renames --ignore-submodules --column[=TEXT]
        """,
        here=True,
    ),
    "git log": Reader(flags=_LOG, operands="REV*", here=True),
    "git show": Reader(flags=_LOG, operands="REV*", here=True),
    "git diff": Reader(
        flags=_LOG + " --cached --staged --merge-base --quiet", operands="REV*", here=True
    ),
    "git reflog": Reader(flags=_REFLOG, operands="", here=True),
    "git reflog show": Reader(flags=_REFLOG, operands="REV*", here=True),
    "git shortlog": Reader(
        flags="""
            -s -n -e -c --summary --numbered --email --since=TEXT --until=TEXT --all --no-merges
        """,
        operands="REV*",
        here=True,
    ),
    "git blame": Reader(
        flags="""
            -L=TEXT -w -M -C -e -f -n -s -l -t -p --porcelain --date=TEXT --show-email
            --since=TEXT
        """,
        operands="REV*",
        here=True,
    ),
    "git branch": Reader(
        flags="-a -r -v --all --remotes --verbose --show-current" + _REFS, operands="", here=True
    ),
    "git branch --list": Reader(
        flags="-a -r -v --all --remotes --verbose" + _REFS, operands="GLOB*", here=True
    ),
    "git branch -l": Reader(
        flags="-a -r -v --all --remotes --verbose" + _REFS, operands="GLOB*", here=True
    ),
    "git branch --merged": Reader(flags="-a -r -v" + _REFS, operands="REV?", here=True),
    "git branch --no-merged": Reader(flags="-a -r -v" + _REFS, operands="REV?", here=True),
    "git tag": Reader(flags="-n[=NUM]" + _REFS, operands="", here=True),
    "git tag -l": Reader(flags="-n+NUM" + _REFS, operands="GLOB*", here=True),
    "git tag --list": Reader(flags="-n+NUM" + _REFS, operands="GLOB*", here=True),
    "git for-each-ref": Reader(flags="--count=NUM" + _REFS, operands="GLOB*", here=True),
    "git show-ref": Reader(
        flags="--heads --tags --branches -s --hash -d --head", operands="GLOB*", here=True
    ),
    "git show-branch": Reader(flags="--all -a -r --list", operands="REV*", here=True),
    "git ls-files": Reader(
        flags="""
            -c -d -m -o -s -u -i -t -v -z --cached --deleted --modified --others --stage
            --unmerged --ignored --exclude-standard --full-name --error-unmatch --directory
            --exclude=GLOB -x=GLOB --eol --abbrev[=NUM] --deduplicate
        """,
        here=True,
    ),
    "git ls-tree": Reader(
        flags="""
            -r -d -t -l -z --name-only --name-status --long --full-name --full-tree --abbrev[=NUM]
        """,
        operands="REV PATH*",
        here=True,
    ),
    "git cat-file": Reader(flags="-p -t -s -e", operands="REV REV?", here=True),
    "git rev-parse": Reader(
        flags="""
            --show-toplevel --abbrev-ref[=TEXT] --short[=NUM] --git-dir --git-common-dir
            --show-prefix --is-inside-work-tree --is-bare-repository --verify -q --quiet
            --symbolic-full-name --show-cdup --absolute-git-dir --is-inside-git-dir
            --is-shallow-repository --symbolic --show-superproject-working-tree
        """,
        operands="REV*",
        here=True,
    ),
    "git rev-list": Reader(flags=_LOG + " --count --objects", operands="REV*", here=True),
    "git merge-base": Reader(
        flags="-a --all --is-ancestor --fork-point --octopus", operands="REV*", here=True
    ),
    "git name-rev": Reader(flags="--tags --name-only --always", operands="REV*", here=True),
    "git describe": Reader(
        flags="""
            --tags --all --always --long --abbrev[=NUM] --contains --match=GLOB
            --exact-match --first-parent --exclude=GLOB --candidates=NUM
        """,
        operands="REV*",
        here=True,
    ),
    "git diff-tree": Reader(
        flags=_LOG + " -r -t --root --no-commit-id", operands="REV*", here=True
    ),
    "git grep": Reader(
        flags="""
            -i -v -c -l -L -n -h -H -o -q -w -E -F -G -P -a -I -p -W -A+NUM -B+NUM -C+NUM -m+NUM
            -e=TEXT --ignore-case --invert-match --count --files-with-matches
            --files-without-match --cached --line-number --only-matching --word-regexp
            --extended-regexp --fixed-strings --heading --break --name-only --perl-regexp
            --max-depth=NUM --color[=TEXT] --no-color --column --context=NUM --after-context=NUM
            --before-context=NUM --show-function --untracked --function-context --full-name --and
            --or --not --all-match --max-count=NUM
        """,
        operands="TEXT REV*",
        here=True,
        deep="always",
    ),
    "git remote": Reader(flags="-v --verbose", operands="", here=True),
    "git remote get-url": Reader(flags="--all --push", operands="REV", here=True),
    "git stash list": Reader(
        flags="-n+NUM -# --oneline --stat --format=FORMAT", operands="", here=True
    ),
    "git stash show": Reader(
        flags="-p -u --patch --stat --name-only --name-status", operands="REV?", here=True
    ),
    "git config": Reader(flags="--get --global --local --system", operands="KEY", here=True),
    "git config --get": Reader(flags="--global --local --system", operands="KEY", here=True),
    "git config get": Reader(operands="KEY", here=True),
    "git symbolic-ref": Reader(flags="--short -q --quiet", operands="REV", here=True),
    "git cherry": Reader(flags="-v --abbrev[=NUM]", operands="REV*", here=True),
    "git worktree list": Reader(flags="-v --porcelain", operands="", here=True),
    "git count-objects": Reader(flags="-v -H", operands="", here=True),
    "git check-ignore": Reader(flags="-v -q -n --verbose --quiet", here=True),
    "git version": Reader(operands="", here=True),
    "git --version": Reader(operands="", here=True),
}

_TOOLS_LISTED = """
    7z actionlint age aria2c autoconf automake bandit biome buf cabal ccache cosign cppcheck cython
    delta difft dlv doxygen dot elixir esbuild eslint fmt gofmt golangci-lint gopls grype hadolint
    hexyl id kind meson more mount nim nl nodemon od paste pgrep prettier ps rclone sccache
    shuf sops sphinx-build split ss staticcheck swiftc syft tac tig tokei trivy twine uname uniq
    uvicorn watch whoami yamllint
    ag ar as aws az awk base64 bash bat bc biber brotli bun bzip2 c++ cat cc clang
    clang++ clang-format clang-tidy clangd cmake cmp code colordiff conda cp cpio cpp curl cut
    dart dash date deno df diff dig direnv docker docker-compose du emacs erl eza exiftool fd
    fdfind ffmpeg ffprobe file find fish fly fzf g++ gawk gcc gcloud gdb ghc ghostscript gh gjs glab
    go gpg grep groff gs gzip head helm heroku htop http hugo hyperfine iconv identify
    inkscape install java javac jq julia kotlin kotlinc kubectl latex ld ldd less lftp libreoffice
    lldb llc ln ls lsof lua luajit lz4 m4 magick make mariadb mawk minikube mkdir mongo mongod
    mongosh mosh mv mypy mysql nano nasm ncdu ninja nix nm node npm npx objdump ocaml octave openssl
    opam pandoc parallel patch pdflatex pdftotext perl pg_dump php pip pip3 pipx pkg-config podman
    postgres protoc psql pwsh pypy python python2 python3 qemu-system-x86_64 r R racket
    readelf redis-cli redis-server restic rg rm rsync ruby ruff sass sbcl scp screen sed
    shellcheck shfmt socat sort sqlite3 ssh sshd stack stat strace strings strip sudo svn swift
    systemctl tail tar tcc tee tesseract tidy tmux touch tr tree tsc unzip uv uvx valgrind vault vi
    vim nvim wasm-opt wasmtime wc wget which xargs xelatex xmllint xxd xz yq yt-dlp zig zip zsh
    zstd
"""
_TOOLCHAIN = "rust-toolchain rust-toolchain.toml"
_YARN = ".yarnrc .yarnrc.yml package.json"
_PYTEST = "conftest.py test*/conftest.py pytest.ini .pytest.ini pyproject.toml tox.ini setup.cfg"
_CAREFUL = {
    **dict.fromkeys(("cargo", "rustc", "rustup", "rustfmt", "rust-analyzer"), _TOOLCHAIN),
    **dict.fromkeys(("yarn", "pnpm", "corepack"), f"{_YARN} .npmrc pnpm-workspace.yaml"),
    **dict.fromkeys(("mvn", "mvnd"), ".mvn"),
    **dict.fromkeys(("pytest", "py.test"), _PYTEST),
    "black": "pyproject.toml",
    "isort": ".isort.cfg pyproject.toml setup.cfg tox.ini",
    "pylint": ".pylintrc pylintrc pyproject.toml setup.cfg tox.ini",
    "flake8": ".flake8 setup.cfg tox.ini",
    "tox": "tox.ini toxfile.py pyproject.toml setup.cfg",
    "bundle": "Gemfile .bundle",
    "gem": ".gemrc",
    "composer": "composer.json",
    "poetry": "pyproject.toml poetry.toml",
    "terraform": ".terraform *.tf .terraform-version",
    "hg": ".hg",
    "gradle": "gradle.properties gradle",
    "ansible": "ansible.cfg",
    "dotnet": "global.json",
}
"""Tools, and the files of a project that would make them run something of the project's."""
_LIKE_IT = {
    **dict.fromkeys(("node", "npm", "npx", "ruby", "php", "lua", "perl", "tsc"), "-v"),
    **dict.fromkeys(("mvn", "gradle"), "-v"),
    **dict.fromkeys(("python", "python3", "pip", "pip3", "curl", "ssh", "tmux"), "-V"),
    **dict.fromkeys(("cargo", "rustc"), "-V -vV"),
    **dict.fromkeys(("java", "javac"), "-version"),
    **dict.fromkeys(("zig", "openssl", "hugo", "vault", "terraform"), "version"),
    **dict.fromkeys(("gcc", "g++", "clang", "cc"), "-v -dumpversion -dumpmachine"),
    "deno": "-v version",
    "go": "version",
}
_NO_HELP = {"less", "opam", "nix", "gcloud", "aws", "heroku", "conda", "ssh", "perl", "go"}
"""What shows its help in a pager, or has none under this name."""
_OWN_SETTINGS = {"npm": ".npmrc", "npx": ".npmrc"}
"""By these it would ask another registry, with our variables in the address."""


def _versions() -> dict[str, Reader]:
    rows: dict[str, Reader] = {}
    careful = {**dict.fromkeys(_TOOLS_LISTED.split(), ""), **_CAREFUL}
    for name, unless in careful.items():
        row = Reader(operands="", unless=unless or _OWN_SETTINGS.get(name, ""), unshadowed=True)
        rows[f"{name} --version"] = row
        for word in _LIKE_IT.get(name, "").split():
            rows[f"{name} {word}"] = row
        if name not in _NO_HELP and unless in {"", _TOOLCHAIN}:
            rows[f"{name} --help"] = row
    return rows


_PIP_LIST = Reader(
    flags="""
        --format=TEXT --not-required -l --local -e --editable --user --exclude=NAME
        --disable-pip-version-check
    """,
    operands="",
    unshadowed=True,
)
_PIP_SHOW = Reader(flags="-f --files -v", operands="NAME*", unshadowed=True)
_PIP_FREEZE = Reader(
    flags="-l --local --all --user --exclude-editable", operands="", unshadowed=True
)
_NPM_LS = Reader(
    flags="""
        --depth=NUM -a --all --json -l --long -p --parseable -g --global --prod --omit=TEXT
        --link
    """,
    operands="NAME*",
    here=True,
    unless=".npmrc",
    unshadowed=True,
)

PACKAGE_READERS: dict[str, Reader] = {
    **_versions(),
    **{f"{pip} list": _PIP_LIST for pip in ("pip", "pip3")},
    **{f"{pip} show": _PIP_SHOW for pip in ("pip", "pip3")},
    **{f"{pip} freeze": _PIP_FREEZE for pip in ("pip", "pip3")},
    **{f"{pip} check": Reader(operands="", unshadowed=True) for pip in ("pip", "pip3")},
    "npm ls": _NPM_LS,
    "npm list": _NPM_LS,
    "npm root": Reader(flags="-g --global", operands="", unless=".npmrc", unshadowed=True),
    "npm prefix": Reader(flags="-g --global", operands="", unless=".npmrc", unshadowed=True),
    "gem list": Reader(flags="-l --local", operands="NAME*", unless=".gemrc", unshadowed=True),
    "rustup show": Reader(operands="", unless=_TOOLCHAIN, unshadowed=True),
    "rustup toolchain list": Reader(operands="", unless=_TOOLCHAIN, unshadowed=True),
    "go env": Reader(operands="GO GO*", unshadowed=True),
    "kubectl version --client": Reader(operands="", unshadowed=True),
    "dpkg -l": Reader(operands="NAME*"),
    "dpkg -s": Reader(operands="NAME*"),
    "dpkg -L": Reader(operands="NAME*"),
}
