#!/usr/bin/env bash
# Makes the results of a named study that stand in docs/studies: scripts/study_results.sh NAME [flags of colla study].
# Refuses a machine on which other programs keep more than a fifth of a core busy.
set -euo pipefail
cd "$(dirname "$0")/.."

name=${1:?"name a study: deepfam, platforms, scaling, resnet or im2txt"}
shift
most_busy=0.2
python=.venv/bin/python
[[ -x $python ]] || python=python3

busy_seconds() { # Of all cores since the machine's start, without idle time and waiting for disks.
  awk -v ticks="$(getconf CLK_TCK)" '/^cpu / { print ($2 + $3 + $4 + $7 + $8 + $9) / ticks }' /proc/stat
}

before=$(busy_seconds)
sleep 5
busy=$(awk -v a="$before" -v b="$(busy_seconds)" 'BEGIN { printf "%.2f", (b - a) / 5 }')
if awk -v busy="$busy" -v most="$most_busy" 'BEGIN { exit !(busy > most) }'; then
  echo "other programs keep $busy cores busy: a result of this machine would say nothing now" >&2
  exit 1
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
./colla study "$name" "$@" --out "$scratch/$name"

"$python" - "$scratch/$name" "$most_busy" <<'PYTHON'
import json, pathlib, sys

folder, most = pathlib.Path(sys.argv[1]), float(sys.argv[2])
for path in sorted(folder.rglob("report.json")):
    report = json.loads(path.read_text())
    if report["interrupted"]:
        sys.exit(f"{path}: the study was interrupted")
    if report["other_cores"] > most:
        sys.exit(f"{path}: other programs kept {report['other_cores']:.2f} cores busy meanwhile")
PYTHON

results=docs/studies/$name
rm -rf "$results"
mkdir -p "$results"
./colla report "$scratch/$name" --figures "$results"
(cd "$scratch/$name" && find . -name report.json -not -path './*/runs/*') | while read -r path; do
  mkdir -p "$results/$(dirname "$path")"
  cp "$scratch/$name/$path" "$results/$path"
done
echo "$results"
