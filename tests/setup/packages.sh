# The Debian packages that trainrun is built and tested with, and how missing ones are installed.
# Sourced by examples/run and tests/run; POSIX sh.

build_packages="g++ libc6-dev cmake ninja-build pkg-config libboost1.81-dev libssh-dev libfmt-dev
  libcli11-dev libtomlplusplus-dev libexpected-dev libsodium-dev libgloo-dev libyaml-dev doctest-dev nlohmann-json3-dev zlib1g-dev"

# Beside the tools of the tests themselves: the peers that interop tests and benches start (Slurm, Open MPI, MPICH,
# pdsh, PyTorch) and the shells that are completed, or logged in with.
test_packages="clang-format-14 clang-format openssh-server openssh-client iproute2 nftables procps util-linux
  python3 python3-numpy python3-torch mandoc busybox-static zsh fish tcsh tmux lintian
  slurmctld slurmd slurm-client munge openmpi-bin libopenmpi-dev mpich libmpich-dev pdsh dpkg-dev file strace ccache"

# Prints those of the given packages that are not installed; asks dpkg alone, once, so it costs milliseconds.
missing_packages() {
  installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null | sed -n 's/ installed$//p')
  for package in "$@"; do
    printf '%s\n' "$installed" | grep -qxF "$package" || echo "$package"
  done
}

# Installs what is missing of the given packages. Without root and without sudo it prints the line to run and exits 2.
need_packages() {
  missing=$(missing_packages "$@" | tr '\n' ' ')
  [ -z "$missing" ] && return 0
  install="apt-get install -y --no-install-recommends $missing"
  if [ "$(id -u)" = 0 ]; then
    as_root=env
  elif command -v sudo >/dev/null 2>&1 && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
    as_root="sudo env"
  else
    echo "These Debian packages are missing, and neither root nor sudo is at hand to install them. Run as root:" >&2
    echo "  apt-get update && $install" >&2
    exit 2
  fi
  echo "installing: $missing"
  # shellcheck disable=SC2086  # as_root and install are lists of words
  $as_root DEBIAN_FRONTEND=noninteractive apt-get update -q </dev/null &&
    $as_root DEBIAN_FRONTEND=noninteractive $install -q </dev/null || {
    echo "apt-get could not install them; its own words are above. By hand, as root: apt-get update && $install" >&2
    exit 2
  }
}
