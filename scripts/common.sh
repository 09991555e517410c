# Functions shared by the scripts; source it from the root of the repository.

started=$SECONDS
elapsed() { printf '%d:%02d' $(((SECONDS - started) / 60)) $(((SECONDS - started) % 60)); }
say() { printf '[%s] %s\n' "$(elapsed)" "$*"; }
fail() {
  local code=$1
  shift
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit "$code"
}

has_nvcc() { command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; }

# progress DONE TOTAL TEXT: a progress line, redrawn on a terminal; elsewhere one line per 10 %.
progress_tenth=-1
progress() {
  local share=$((100 * $1 / ($2 > 0 ? $2 : 1)))
  [ $share -le 100 ] || share=100
  if [ -t 1 ]; then
    printf '\r\033[K[%s] %3d%% %.*s' "$(elapsed)" $share $((${COLUMNS:-100} - 16)) "$3"
  elif [ $((share / 10)) -ne $progress_tenth ]; then
    progress_tenth=$((share / 10))
    printf '[%s] %3d%% %.84s\n' "$(elapsed)" $share "$3"
  fi
}
progress_end() {
  progress_tenth=-1
  if [ -t 1 ]; then printf '\r\033[K'; fi
}

# configure PRESET [CMAKE ARGUMENT]...: runs cmake; prints its output only on failure.
configure() {
  local preset=$1 log
  shift
  mkdir -p build
  log=build/configure-$preset.log
  say "configuring (preset $preset)"
  cmake --preset "$preset" "$@" >"$log" 2>&1 || {
    tail -20 "$log" >&2
    fail 5 "cmake failed to configure the build (full output: $log)"
  }
}

# build PRESET [TARGET]...: builds with progress from ninja's counter.
build() {
  local preset=$1 log line
  shift
  log=build/build-$preset.log
  say "building${*:+ $*} (preset $preset, ${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)} jobs)"
  : >"$log"
  cmake --build --preset "$preset" ${*:+--target "$@"} 2>&1 | while IFS= read -r line; do
    printf '%s\n' "$line" >>"$log"
    if [[ $line =~ ^\[([0-9]+)/([0-9]+)\]\ (.*) ]]; then
      progress "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" \
        "${BASH_REMATCH[1]}/${BASH_REMATCH[2]} ${BASH_REMATCH[3]##* }"
    fi
  done || {
    progress_end
    grep -m 20 -E 'error|FAILED' "$log" >&2 || tail -20 "$log" >&2
    fail 5 "the build failed (full output: $log)"
  }
  progress_end
}
