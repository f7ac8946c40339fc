# What ./colla and ./test share: make the machine ready, build, install. Sourced, never run.
#
# A step that has been done leaves a stamp that says what it was done for, written last, so an
# interrupted set-up goes on where it stopped and a finished one costs a few file checks. Progress
# goes to standard error, everything that the tools say to build/setup.log. A step that takes long
# says every `heartbeat` seconds what it does.

root=$(dirname "$(dirname "$(realpath "${BASH_SOURCE[0]}")")")
log=$root/build/setup.log
stamps=$root/build/.setup
venv=$root/.venv
heartbeat=30

say() { printf 'colla: %s\n' "$*" >&2; }

die() {
  say "$1"
  exit "${2:-1}"
}

# step "what it does" COMMAND…: says so, and ends set-up when it fails.
step() {
  local what=$1
  shift
  say "$what"
  printf '\n== %s: %s\n' "$what" "$*" >>"$log"
  patiently "${what%%:*}" "$@" || failed "$what"
}

# patiently "what it does" COMMAND…: runs COMMAND, whose output goes to the log, with a heartbeat.
patiently() {
  local status=0
  startHeartbeat "$1"
  "${@:2}" >>"$log" 2>&1 8>&- 9>&- || status=$?
  stopHeartbeat
  return "$status"
}

# Until stopHeartbeat, or the end of this script, says every `heartbeat` seconds what goes on, for how
# long, and the last line of the log.
startHeartbeat() {
  exec 8> >(beat "$1" 9>&- >&2)
  heart=$!
}
stopHeartbeat() {
  exec 8>&-
  [[ -z ${heart:-} ]] || wait "$heart"
  heart=
}
beat() {
  local began=$SECONDS status
  while :; do
    status=0
    read -r -t "$heartbeat" || status=$?  # Nobody writes: this waits, or comes to the end.
    ((status > 128)) || return 0
    say "$1, for $((SECONDS - began)) s: $(tail -n 1 "$log" | cut -c 1-100)"
  done
}

# What the step said when it failed (ninja marks the place; otherwise its last lines), then where to
# read on.
failed() {
  awk '/^== / { n = marked = 0; next }
    /^FAILED: / && !marked { n = 0; marked = 1 }
    { said[n++] = $0 }
    END {
      first = marked || n < 20 ? 0 : n - 20
      for (i = first; i < n && i < first + 20; i++) print "  " said[i]
    }' "$log" >&2
  die "$1 failed; all of its output is in ${log}"
}

# setUp build|test|all: packages and .venv. Holds a lock until unlock, so that several calls at once
# wait for each other.
setUp() {
  { mkdir -p "$stamps" 2>/dev/null && [[ -w $stamps ]]; } ||
    die "cannot write to $root; clone Colla to a place of your own"
  exec 9>>"$stamps/lock"
  if ! flock -n 9; then
    say "waiting for another set-up in $root"
    until flock -w "$heartbeat" 9; do say "still waiting for another set-up in $root"; done
  fi
  : >"$log"
  installPackages "$1"
  makeVenv
}

unlock() { exec 9>&-; }

# Names of the packages for build|test|all, one per line. PYTHON in a name is the system's Python, such as python3.11.
packagesFor() {
  local system
  system=$(readlink -f /usr/bin/python3) || true
  system=${system##*/}
  awk -v want="$1" -v python="${system:-python3}" \
    '$1 == "build" || ($1 == "test" && want != "build") || $1 == want { sub(/PYTHON/, python, $2); print $2 }' \
    "$root/scripts/packages.txt"
}

installPackages() {
  local stamp=$stamps/packages-$1 list=$root/scripts/packages.txt
  [[ $stamp -nt $list && ! /var/lib/dpkg/status -nt $stamp ]] && return

  if ! command -v dpkg-query >/dev/null; then
    say "this is neither Debian nor Ubuntu: the build needs what scripts/packages.txt lists"
    touch "$stamp"
    return
  fi
  local wanted present missing
  wanted=$(packagesFor "$1" | sort)
  # Names that dpkg has never heard of are an error to it, and missing to us.
  # shellcheck disable=SC2086
  present=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $wanted 2>/dev/null |
    sed -n 's/^installed //p' | sort -u) || true
  missing=$(comm -23 <(echo "$wanted") <(echo "$present") | tr '\n' ' ')
  missing=${missing% }
  # shellcheck disable=SC2086
  [[ -z $missing ]] || aptInstall $missing
  touch "$stamp"
}

aptInstall() {
  local sudo=()
  if [[ $(id -u) != 0 ]]; then
    sudo -n true 2>/dev/null || die "packages are missing; install them and call again:
  sudo apt-get update && sudo apt-get install --no-install-recommends $*"
    sudo=(sudo -n)
  fi
  local install=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive
    "PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin" apt-get -o DPkg::Lock::Timeout=600
    install -y --no-install-recommends "$@")
  say "installing with apt: $*"
  printf '\n== %s\n' "${install[*]}" >>"$log"
  # Package lists may be missing or old; a source of somebody else's that does not answer now is
  # no reason to stop.
  if ! patiently "installing with apt" "${install[@]}"; then
    patiently "updating apt's lists" "${sudo[@]}" apt-get update || true
    patiently "installing with apt" "${install[@]}" || failed "apt-get install"
  fi
}

# Those that torch's wheels are built for, and that can make a venv with pip in it.
fits='import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))'

findPython() {
  local candidate
  for candidate in ${COLLA_PYTHON:+"$COLLA_PYTHON"} /usr/bin/python3 python3 python3.{11,12,13,14}; do
    if "$candidate" -c "$fits" 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  die "no Python 3.11 to 3.14 with venv found; install one, or name it: COLLA_PYTHON=… $0"
}

# .venv with what scripts/requirements.txt pins. With Torch_DIR set, libtorch is there already and
# torch is left out.
makeVenv() {
  local requirements stamp=$venv/.ready python
  requirements=$(<"$root/scripts/requirements.txt")
  if [[ -n ${Torch_DIR:-} ]]; then
    [[ -e $Torch_DIR/TorchConfig.cmake ]] ||
      die "Torch_DIR is $Torch_DIR, but there is no TorchConfig.cmake in it"
    requirements=$(grep -v '^torch==' <<<"$requirements")
  fi
  if [[ -e $stamp && -x $venv/bin/python ]]; then
    # A .venv with torch serves those who bring their own as well.
    local done
    done=$(<"$stamp")
    [[ $done == "$requirements" || $done == "$(<"$root/scripts/requirements.txt")" ]] && return
  fi

  # What a user set for other Pythons must not reach into this one.
  local clean=(env -u PYTHONPATH -u PYTHONHOME -u PIP_USER)
  # Without its stamp a .venv is half made, and pip cannot tell: start again.
  if [[ ! -e $stamp || ! -x $venv/bin/python ]]; then
    python=$(findPython)
    step "making .venv with $python" "${clean[@]}" "$python" -m venv --clear "$venv"
  fi
  rm -f "$stamp"
  printf '%s\n' "$requirements" >"$stamps/requirements.txt"
  step "installing into .venv: $(grep -v "^#" <<<"$requirements" | paste -sd " ")" \
    "${clean[@]}" "$venv/bin/python" -m pip install --disable-pip-version-check -r "$stamps/requirements.txt"
  printf '%s\n' "$requirements" >"$stamp"
}

# configure DIR [CMAKE-ARG…]: prepares $root/DIR if that was not done with these arguments.
configure() {
  local directory=$root/$1
  shift
  local torch=${Torch_DIR:-}
  [[ -n $torch ]] || for torch in "$venv"/lib/python3*/site-packages/torch/share/cmake/Torch; do :; done
  local arguments=(-S "$root" -B "$directory" -G Ninja --no-warn-unused-cli
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER_LAUNCHER=ccache "-DTorch_DIR=$torch" "$@")
  # A libtorch of the user's own need not be a Python's.
  [[ -n ${Torch_DIR:-} ]] || arguments+=(-DCOLLA_PYTHON=ON "-DPython_EXECUTABLE=$venv/bin/python")
  local stamp=$directory/.configured
  if [[ ! -e $stamp || ! -e $directory/build.ninja || $(<"$stamp") != "${arguments[*]}" ]]; then
    # Nothing of another place, compiler or choice may stay; objects do, and ccache has the rest.
    rm -rf "$stamp" "$directory/CMakeCache.txt" "$directory/CMakeFiles"
    step "configuring ${directory#"$root/"}" cmake "${arguments[@]}"
    printf '%s\n' "${arguments[*]}" >"$stamp"
  fi
}

# build DIR TARGET [CMAKE-ARG…]: configures $root/DIR, then brings TARGET up to date.
build() {
  local directory=$root/$1 target=$2
  configure "$1" "${@:3}"
  local -x CCACHE_BASEDIR=$root  # So that clones in different places share what ccache has.
  # What it wants for precompiled headers; and Python changes the locale of what it starts.
  local -x CCACHE_SLOPPINESS=pch_defines,time_macros,locale
  # It wants a home, which service users do not have.
  [[ -w ${HOME:-/nonexistent} ]] || local -x CCACHE_DIR=${CCACHE_DIR:-$root/.cache/ccache}
  local what="building ${directory#"$root/"}"
  printf '\n== ninja %s in %s\n' "$target" "$directory" >>"$log"
  [[ -t 2 ]] || startHeartbeat "$what"
  ninja -C "$directory" "$target" 2>&1 8>&- 9>&- | showProgress "$what" 8>&- || failed "$what"
  stopHeartbeat
}

# Copies ninja's output to the log and says how far it is: on a terminal in one line that changes,
# elsewhere once, and then with the heartbeat. Says nothing when there was nothing to do.
showProgress() {
  local line said=
  while IFS= read -r line; do
    printf '%s\n' "$line" >>"$log"
    [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]] || continue
    if [[ -t 2 ]]; then
      printf '\r\033[Kcolla: %s, %s of %s' "$1" "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" >&2
    elif [[ -z $said ]]; then
      say "$1"
    fi
    said=yes
  done
  if [[ -n $said && -t 2 ]]; then printf '\r\033[K' >&2; fi
}

# install --prefix DIR: builds what the package needs, without tests, and installs all of it.
install() {
  local prefix=
  case $#:${1:-} in
    1:-h | 1:--help)
      echo "./colla install --prefix DIR    builds Colla's package, without tests, and installs it in DIR"
      return
      ;;
    1:--prefix=?*) prefix=${1#*=} ;;
    2:--prefix) prefix=$2 ;;
  esac
  [[ -n $prefix ]] || die "give the folder to install in: ./colla install --prefix DIR" 2
  prefix=$(realpath -m -- "$prefix")
  { mkdir -p "$prefix" 2>/dev/null && [[ -w $prefix ]]; } ||
    die "cannot write to $prefix; install in a folder of your own, or as root"
  setUp build
  build build colla_package
  step "installing in $prefix" cmake --install "$root/build" --prefix "$prefix"
  unlock
  say "installed; programs find it with -DCMAKE_PREFIX_PATH=$prefix"
}
