#!/usr/bin/env bash
# clone_test.sh ROOT: a clean clone of ROOT, with changes that are not committed yet, in which nothing has
# run but `./colla demo`. From there `cmake --install` installs nothing and says why, and `./colla install`
# all that examples/net needs. Takes minutes, so `./test --clone` and `./test --all` run it.
#
# .venv is ROOT's, and ccache has what was compiled there.
set -euo pipefail

root=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "clone: failed: $*"
  exit 1
}

mkdir "$work/clone"
cd "$root"
git ls-files --cached --others --exclude-standard -z | while IFS= read -r -d '' file; do
  [[ ! -e $file ]] || printf '%s\0' "$file"
done | xargs -0 cp --parents -t "$work/clone"
ln -s "$root/.venv" "$work/clone/.venv"
cd "$work/clone"

./colla demo
! cmake --install build --prefix "$work/half" >"$work/said" 2>&1 || fail "half of it was installed"
grep "nothing was installed" "$work/said" || fail "not a word of what is missing: $(<"$work/said")"
[[ ! -e $work/half ]] || fail "cmake --install left half a prefix"

./colla install --prefix "$work/prefix"
[[ -z $(find build/tests -name '*_test' -type f) ]] || fail "./colla install built tests"
for torch in "$root"/.venv/lib/python3*/site-packages/torch/share/cmake/Torch; do :; done
cmake -S examples/net -B "$work/net" -G Ninja -DCMAKE_CXX_COMPILER_LAUNCHER=ccache \
  -DCMAKE_PREFIX_PATH="$work/prefix" -DTorch_DIR="${Torch_DIR:-$torch}" >/dev/null
cmake --build "$work/net"
"$work/net/net" --steps 5 --np 2 --checkpoint-dir "$work/run"
"$work/prefix/bin/colla" inspect "$work/run"
echo "clone: ./colla demo, ./colla install and examples/net are fine"
