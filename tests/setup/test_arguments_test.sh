#!/usr/bin/env bash
# test_arguments_test.sh ROOT: what ./test runs, told by stand-ins for what it would run.
set -euo pipefail

root=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/scripts" "$work/bin" "$work/venv/bin"
cp "$root/test" "$work"
cat >"$work/scripts/setup.sh" <<END
root=$work
venv=$work/venv
setUp() { :; }
build() { :; }
unlock() { :; }
die() { echo "\$1" >&2; exit "\${2:-1}"; }
END
printf '#!/bin/sh\necho "ctest $*"\n' >"$work/bin/ctest"
printf '#!/bin/sh\necho pytest\n' >"$work/venv/bin/python"
chmod +x "$work/bin/ctest" "$work/venv/bin/python"

run() { env -u Torch_DIR PATH="$work/bin:$PATH" "$work/test" "$@"; }
# expect WHAT WANTED GOT
expect() {
  if [[ $3 != $2 ]]; then  # WANTED is a pattern.
    printf '%s\nwanted: %s\ngot:    %s\n' "$@"
    exit 1
  fi
}

expect "everything" "ctest *pytest" "$(run)"
# pytest would take longer than the tests that were asked for.
expect "unit tests alone" "ctest * -LE whole" "$(run -- -LE whole)"
expect "some tests" "ctest * -R Status" "$(run -- -R Status)"

# exitOf COMMAND…: its exit code.
exitOf() {
  local status=0
  "$@" >/dev/null 2>&1 || status=$?
  echo "$status"
}

# Whichever runner fails, ./test does.
printf '#!/bin/sh\nexit 1\n' >"$work/venv/bin/python"
expect "exit code when pytest fails" 1 "$(exitOf run)"
printf '#!/bin/sh\ntouch %s/pytest\n' "$work" >"$work/venv/bin/python"
expect "exit code when all is well" 0 "$(exitOf run)"
rm "$work/pytest" "$work/bin/ctest"  # The real one, from here on.
for mode in "" --asan; do
  mkdir -p "$work/build${mode#-}"
  printf 'add_test(good "true")\nadd_test(bad "false")\n' >"$work/build${mode#-}/CTestTestfile.cmake"
  # shellcheck disable=SC2086
  expect "exit code of ./test $mode when a test fails" "[1-9]*" "$(exitOf run $mode)"
  # shellcheck disable=SC2086
  expect "exit code of ./test $mode for a good test" 0 "$(exitOf run $mode -- -R good)"
  # shellcheck disable=SC2086
  expect "exit code of ./test $mode when no test fits" "[1-9]*" "$(exitOf run $mode -- -R none)"
done
[[ ! -e $work/pytest ]] || { echo "pytest ran after ctest failed"; exit 1; }
