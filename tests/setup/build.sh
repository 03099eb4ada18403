# How a preset is configured and built from a script; sourced after packages.sh, in the repository's root.

# Compilers of Asio and libssh files take over a gigabyte each: as many at once as memory bears, not only as cores.
build_jobs() {
  cores=$(nproc)
  by_memory=$(awk '/^MemAvailable:/ { print int($2 / 1500000) }' /proc/meminfo)
  [ "$by_memory" -lt 1 ] && by_memory=1
  [ "$cores" -lt "$by_memory" ] && echo "$cores" || echo "$by_memory"
}

# Another clone compiles only what is not the same here. Results serve all of them, since paths in them begin at the
# clone; of precompiled headers ccache would else keep nothing.
if command -v ccache >/dev/null 2>&1; then
  # In a path with a blank ccache does not make the names of headers relative that it keeps with a result: another clone
  # that got it would watch the headers of this one, and not compile when its own change.
  case $PWD in *[[:space:]]*) export CCACHE_READONLY=1 ;; esac
  export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
  export CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1
  export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
fi

# build_preset PRESET [TARGET...]: configures only if that was not done yet (CMake itself sees later changes).
build_preset() {
  preset=$1
  shift
  [ -f "build/$preset/build.ninja" ] || cmake --preset "$preset" || return 1
  cmake --build "build/$preset" --parallel "$(build_jobs)" ${1:+--target "$@"}
}
