#!/usr/bin/env bash
# heartbeat_test.sh ROOT: a long set-up says from time to time what it does, also where its output is a
# file. Stand-ins take the place of pip, apt and ninja: each goes on until set-up has said what it does.
set -euo pipefail

root=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/scripts" "$work/bin" "$work/build"
cp "$root/scripts/setup.sh" "$work/scripts"
cat >"$work/slow" <<END
#!/bin/sh
echo "\$1"
for i in \$(seq 200); do
  ! grep -qF " s: \$1" $work/said || exit 0
  sleep 0.1
done
exit 1
END
printf '#!/bin/sh\nexec %s "[3/7] Building base.o"\n' "$work/slow" >"$work/bin/ninja"
chmod +x "$work/slow" "$work/bin/ninja"

cat >"$work/setup" <<'END'
set -euo pipefail
source "$1/scripts/setup.sh"
heartbeat=1
PATH=$1/bin:$PATH
configure() { :; }  # Nothing to prepare for the stand-in.
: >"$log"
step "installing into .venv: torch" "$1/slow" "Downloading torch"
patiently "installing with apt" "$1/slow" "Unpacking ninja"
build build all
patiently "being quick" true
END
bash "$work/setup" "$work" 2>"$work/said" || { cat "$work/said"; exit 1; }

wanted="colla: installing into .venv: torch
colla: installing into .venv, for N s: Downloading torch
colla: installing with apt, for N s: Unpacking ninja
colla: building build
colla: building build, for N s: [3/7] Building base.o"
got=$(sed 's/for [0-9]* s/for N s/' "$work/said" | uniq)
[[ $got == "$wanted" ]] || { printf 'wanted: %s\ngot:    %s\n' "$wanted" "$got"; exit 1; }
