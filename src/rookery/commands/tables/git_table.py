"""The commands of git that only read, with every option they may be given unasked.

Left out is what runs a program that the repository's settings name (a pager, a difference
viewer, a signature check), enters other repositories, or writes a file.
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
