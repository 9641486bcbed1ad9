#!/bin/sh
# Undoes a trial in WORKTREE and makes it again: again.sh WORKTREE
here=$(cd "$(dirname "$0")" && pwd)
cd "$1" && git reset -q --hard && git clean -fdq -e target && python3 "$here"/rename.py . && python3 "$here"/finish.py . && cargo fmt --all &&
git ls-files 'crates/policies/src/*.rs' -o --exclude-standard -c | sort -u | grep '^crates/policies/src' | xargs -r ls 2>/dev/null | xargs rustfmt --edition 2024
python3 "$here"/rewrap.py $(git diff --name-only HEAD --diff-filter=d | grep '\.rs$')
