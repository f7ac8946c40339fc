#!/usr/bin/env bash
# test_arguments_test.sh ROOT: what ./test runs, told by stand-ins for what it would run.
set -euo pipefail

root=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/scripts" "$work/bin" "$work/venv/bin"
cp "$root/test" "$work"
cp "$root"/scripts/{failed,skipped}.py "$work/scripts"
cat >"$work/scripts/setup.sh" <<END
root=$work
venv=$work/venv
setUp() { :; }
build() { :; }
unlock() { :; }
say() { echo "colla: \$1" >&2; }
die() { say "\$1"; exit "\${2:-1}"; }
END
printf '#!/bin/sh\necho "ctest $*"\n' >"$work/bin/ctest"
printf '#!/bin/sh\necho pytest\n' >"$work/venv/bin/python"
chmod +x "$work/bin/ctest" "$work/venv/bin/python"
mkdir -p "$work/bench/peers"
echo "print('$work/venv/bin/python')" >"$work/bench/peers/environments.py"

run() { env -u Torch_DIR PATH="$work/bin:$PATH" "$work/test" "$@"; }
# expect WHAT WANTED GOT
expect() {
  if [[ $3 != $2 ]]; then  # WANTED is a pattern.
    printf '%s\nwanted: %s\ngot:    %s\n' "$@"
    exit 1
  fi
}

expect "everything" "ctest *pytest*skipped: no tests" "$(run)"
# pytest would take longer than the tests that were asked for.
expect "unit tests alone" "ctest * -LE whole*" "$(run -- -LE whole)"
expect "some tests" "ctest * -R Status*" "$(run -- -R Status)"

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
  cat >"$work/build${mode#-}/CTestTestfile.cmake" <<'END'
add_test(good "true")
add_test(bad "false")
add_test(lame "sh" "-c" "echo there is no camel; exit 77")
set_tests_properties(lame PROPERTIES SKIP_RETURN_CODE 77)
END
  # shellcheck disable=SC2086
  expect "exit code of ./test $mode when a test fails" "[1-9]*" "$(exitOf run $mode)"
  # shellcheck disable=SC2086
  expect "exit code of ./test $mode for a good test" 0 "$(exitOf run $mode -- -R good)"
  # shellcheck disable=SC2086
  expect "exit code of ./test $mode when no test fits" "[1-9]*" "$(exitOf run $mode -- -R none)"
  # What was skipped stands at the end, after a failure as well.
  # shellcheck disable=SC2086
  expect "end of ./test $mode" "*skipped: 1 test"$'\n'"  there is no camel: lame" "$(run $mode 2>&1 || true)"
done
# A test that fails runs once more, alone. If it passes then, it is listed; if it fails again, so does ./test.
cat >"$work/build/CTestTestfile.cmake" <<END
add_test(good "true")
add_test(shy "sh" "-c" "ls $work/tried || { touch $work/tried; exit 1; }")
END
expect "exit code when a test fails once" 0 "$(exitOf run -- -R .)"
rm "$work/tried"
expect "end of ./test when a test fails once" "*unsteady: failed, then passed alone: shy*skipped: no tests" \
  "$(run -- -R . 2>/dev/null)"
seq -f 'add_test(bad%g "false")' 6 >"$work/build/CTestTestfile.cmake"
expect "six failures" none "$(run -- -R bad 2>&1 | grep 'running again' || echo none)"
printf 'add_test(bad "sh" "-c" "echo >>%s/runs; false")\n' "$work" >"$work/build/CTestTestfile.cmake"
expect "exit code when a test fails twice" 1 "$(exitOf run -- -R bad)"
expect "runs of a test that fails" 2 "$(wc -l <"$work/runs")"
[[ ! -e $work/pytest ]] || { echo "pytest ran after ctest failed"; exit 1; }

# ./test --all goes on after a failure, and says what became of each part.
cp "$work/test" "$work/all"
cat >"$work/test" <<'END'
#!/bin/sh
case $1 in
  "") echo "100% tests passed, 0 tests failed out of 7" ;;
  --clone) echo "clone: all is fine" ;;
  --asan) echo "86% tests passed, 1 tests failed out of 7"; exit 8 ;;
  --fuzz) echo "fuzz: 3 of 3 targets passed" ;;
  --tsan) exit "$(cat "${0%test}tsan")" ;;
esac
END
allParts() { "$work/all" --all; }
echo 0 >"$work/tsan"
expect "exit code of --all when a part fails" 1 "$(exitOf allParts)"
expect "summary of --all" "*
tests      exit code 0  100% tests passed, 0 tests failed out of 7
clone      exit code 0  clone: all is fine
clusters   exit code 0 *
frameworks exit code 0 *
format     exit code 0 *
asan       exit code 8  86% tests passed, 1 tests failed out of 7
tsan       exit code 0 *
fuzz       exit code 0  fuzz: 3 of 3 targets passed" "$(allParts || true)"
sed -i 's/exit 8/exit 0/' "$work/test"
expect "exit code of --all when all is well" 0 "$(exitOf allParts)"
echo 1 >"$work/tsan"
expect "exit code of --all when another part fails" 1 "$(exitOf allParts)"
expect "exit code of --all with arguments for ctest" 2 "$(exitOf "$work/all" --all -- -R Status)"
