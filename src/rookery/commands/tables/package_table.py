"""Tools asked for their version, and package managers asked for what is installed.

Some tools run what a project names before they do anything: those are not asked for their version
where such files are. Not listed are tools that always look for a project's own copy of themselves.
"""

from rookery.commands.tables.read_only_program import Reader

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
