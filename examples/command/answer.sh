#!/usr/bin/env bash
# The simplest agent: the turn comes as one JSON line on stdin, and all that is written to stdout is the answer.
# A non-zero exit is a crash.
set -euo pipefail

words=$(node -p 'JSON.parse(require("fs").readFileSync(0, "utf8")).input' | wc -w)
echo "$((words)) words"
