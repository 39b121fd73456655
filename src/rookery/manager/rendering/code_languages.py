"""The languages that are highlighted, and how files of them are named.

Not all that the library knows: each of these was tried on long and on hostile text.
"""

LANGUAGES: dict[str, str] = {
    "bash": "sh bash zsh ksh bashrc zshrc profile",
    "c": "c h",
    "clojure": "clj cljs cljc edn",
    "cmake": "cmake",
    "cpp": "cpp cc cxx hpp hh hxx ino",
    "csharp": "cs",
    "css": "css",
    "dart": "dart",
    "diff": "diff patch",
    "docker": "dockerfile",
    "elixir": "ex exs",
    "erlang": "erl hrl",
    "fsharp": "fs fsx fsi",
    "go": "go",
    "graphql": "graphql gql",
    "groovy": "groovy gradle",
    "haskell": "hs",
    "hcl": "hcl tf tfvars",
    "html": "html htm xhtml vue svelte",
    "ini": "ini cfg conf properties editorconfig gitconfig",
    "java": "java",
    "javascript": "js mjs cjs jsx",
    "json": "json jsonl webmanifest ipynb",
    "julia": "jl",
    "kotlin": "kt kts",
    "lua": "lua",
    "make": "mk makefile gnumakefile",
    "nginx": "nginx",
    "nim": "nim",
    "objective-c": "m mm",
    "ocaml": "ml mli",
    "perl": "pl pm",
    "php": "php",
    "powershell": "ps1 psm1",
    "protobuf": "proto",
    "python": "py pyi pyw",
    "r": "r",
    "ruby": "rb rake gemfile rakefile",
    "rust": "rs",
    "scala": "scala sc",
    "scss": "scss",
    "sql": "sql",
    "swift": "swift",
    "toml": "toml",
    "tsx": "tsx",
    "typescript": "ts mts cts",
    "xml": "xml xsd xsl svg plist csproj",
    "yaml": "yaml yml",
    "zig": "zig",
}
_SPOKEN = {
    "c++": "cpp",
    "c#": "csharp",
    "console": "bash",
    "dockerfile": "docker",
    "golang": "go",
    "js": "javascript",
    "jsonc": "json",
    "json5": "json",
    "makefile": "make",
    "node": "javascript",
    "objc": "objective-c",
    "py": "python",
    "python3": "python",
    "shell": "bash",
    "terraform": "hcl",
}
_BY_ENDING = {ending: name for name, endings in LANGUAGES.items() for ending in endings.split()}


def language_named(name: str) -> str | None:
    """The language that somebody calls so."""
    said = name.strip().lower()
    if said in LANGUAGES:
        return said
    return _SPOKEN.get(said) or _BY_ENDING.get(said)


def language_of(path: str) -> str | None:
    """The language of a file, told from its name alone."""
    name = path.rpartition("/")[2].lower()
    return _BY_ENDING.get(name.rpartition(".")[2])
