#!/usr/bin/env bash
# torch_dir_test.sh ROOT: ./colla with a libtorch of the user's own, told by stand-ins for what would
# install and build.
set -euo pipefail

root=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bin" "$work/clone" "$work/libtorch"
cp -r "$root/colla" "$root/scripts" "$work/clone"
echo "# none" >"$work/clone/scripts/packages.txt"
touch "$work/libtorch/TorchConfig.cmake"

# A Python whose venv has a Python that writes down what pip should install.
cat >"$work/bin/python" <<END
#!/bin/sh
[ "\$2" = venv ] || exit 0
mkdir -p "\$4/bin"
printf '#!/bin/sh\ncat "\${6}" >$work/installed\n' >"\$4/bin/python"
chmod +x "\$4/bin/python"
END
cat >"$work/bin/cmake" <<END
#!/bin/sh
echo "\$*" >$work/configured
mkdir -p "\$4/bin"
touch "\$4/build.ninja"
END
cat >"$work/bin/ninja" <<END
#!/bin/sh
printf '#!/bin/sh\necho "colla \$*"\n' >"\$2/bin/colla"
chmod +x "\$2/bin/colla"
END
chmod +x "$work"/bin/*

run() { PATH="$work/bin:$PATH" COLLA_PYTHON="$work/bin/python" "$work/clone/colla" "$@"; }
# expect WHAT WANTED GOT
expect() {
  if [[ $3 != $2 ]]; then  # WANTED is a pattern.
    printf '%s\nwanted: %s\ngot:    %s\n' "$@"
    exit 1
  fi
}
# Lines for torch itself.
torch() { grep -c '^torch==' "$work/installed" || true; }

# Where there is none, set-up says so before it installs anything.
status=0
Torch_DIR=$work/bin run 2>"$work/stderr" || status=$?
expect "exit code without libtorch" 1 "$status"
expect "what is said" "colla: Torch_DIR is $work/bin, but there is no TorchConfig.cmake in it" \
  "$(<"$work/stderr")"

# Theirs is used, none is installed, and no extension for Python is built.
expect "output" "colla train mlp" "$(Torch_DIR=$work/libtorch run train mlp 2>"$work/stderr")"
expect "torch to install" 0 "$(torch)"
expect "what is configured" "* -DTorch_DIR=$work/libtorch" "$(<"$work/configured")"

# The second call does and says nothing of its own.
rm "$work/installed" "$work/configured"
expect "output of the second call" "colla models" "$(Torch_DIR=$work/libtorch run models 2>&1)"
[[ ! -e $work/installed && ! -e $work/configured ]] || { echo "set up twice"; exit 1; }

# Without the variable, torch is installed, and what was configured for theirs is not kept.
expect "output without Torch_DIR" "colla models" "$(env -u Torch_DIR bash -c \
  'PATH=$1/bin:$PATH COLLA_PYTHON=$1/bin/python "$1/clone/colla" models' run "$work" 2>"$work/stderr")"
expect "torch to install without Torch_DIR" 1 "$(torch)"
expect "what is configured without Torch_DIR" "*-DTorch_DIR=$work/clone/.venv/* -DCOLLA_PYTHON=ON *" \
  "$(<"$work/configured")"
