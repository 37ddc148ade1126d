#!/usr/bin/env bash
# Finds what is missing on this machine, says what it will install, and installs it.
#
#   scripts/setup.sh [JOB...]     what it is for: build, test, house, exports, page, demo, bench, lab, remedies, kernels, dist, fuzz; all without
#                                 And by their names only: influx and servers, for not every system packs these, fleet, luf, luf-btf, luf-llama and luf-model
#
# It looks for what is needed and not for packages, so it does nothing, and says nothing, on any
# distribution where everything is there. It installs Debian's and Ubuntu's packages with apt-get,
# and Rust with rustup into the user's home.

. "$(dirname "$0")/lib.sh"

jobs=${*:-build test house exports page demo bench lab remedies kernels dist fuzz}
packages=()
need_rust=

needs() { # PACKAGES..., once each
	local package
	for package in "$@"; do
		case " ${packages[*]-} " in *" $package "*) ;; *) packages+=("$package") ;; esac
	done
}

has_header() { [ -e "/usr/include/$1" ] || echo "#include <$1>" | cc -E - >/dev/null 2>&1; }

has_library() { compgen -G "/usr/lib/*-linux-gnu/$1" >/dev/null; }

needs_cc() { { have cc && has_header stdio.h; } || needs gcc libc6-dev; }

look_for_build() {
	needs_cc
	have make || needs make
	have "${CLANG:-clang}" || needs clang
	have pkg-config || needs pkg-config
	has_header libelf.h || needs libelf-dev
	has_header zlib.h || needs zlib1g-dev
	find_cargo && return
	need_rust=yes
	have curl || have rustup || needs curl
	[ -e /etc/ssl/certs/ca-certificates.crt ] || needs ca-certificates
}

look_for_test() {
	have redis-server || needs redis-server
	have redis-benchmark || needs redis-tools
	# symbols: stripped files and what gives them names back
	have objcopy || needs binutils
	have xz || needs xz-utils
	have c++ || needs g++
	have unshare || needs util-linux
	# Allocators to recognise, small ones. Other systems pack no archives of them: there the test says what it skips.
	have apt-get || return 0
	has_library libjemalloc.a || needs libjemalloc-dev
	has_library libmimalloc.so || needs libmimalloc-dev
	has_library libtcmalloc_minimal.a || needs libgoogle-perftools-dev
	have musl-gcc || needs musl-tools
}

look_for_house() { have python3 || needs python3; }

look_for_demo() { python3 -c 'import venv, ensurepip' 2>/dev/null || needs python3 python3-venv; }

look_for_exports() { have go || needs golang-go; }

# What Spark runs on.
look_for_fleet() { have java || needs default-jre-headless; }

look_for_influx() { have influxd || needs influxdb; }

# What keeps what quell agent tells.
look_for_servers() {
	{ have prometheus && have promtool; } || needs prometheus
	have influxd || needs influxdb
	have victoria-metrics || needs victoria-metrics
	have openssl || needs openssl
}

look_for_bench() {
	have python3 || needs python3
	have bpftrace || needs bpftrace
	# Ubuntu's perf is a wrapper that looks for the one that was built with the running kernel.
	perf --version >/dev/null 2>&1 || {
		if grep -qs '^ID=ubuntu' /etc/os-release; then
			needs linux-tools-common "linux-tools-$(uname -r)"
		else
			needs linux-perf
		fi
	}
}

# What the lab's victim is compared with, and what compiles beside it.
look_for_lab() {
	have python3 || needs python3
	needs_cc
	have make || needs make
	{ have oslat && have cyclictest; } || needs rt-tests
}

# What builds the allocators; they themselves go under target/, and are not installed.
look_for_remedies() {
	have python3 || needs python3
	needs_cc
	have c++ || needs g++
	have make || needs make
	# Debian's packages of other releases are unpacked by Debian's tools only.
	have apt-get || return 0
	have dpkg-deb || needs dpkg
	[ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || needs debian-archive-keyring
}

look_for_kernels() {
	have python3 || needs python3
	have qemu-system-x86_64 || needs qemu-system-x86
	have busybox || needs busybox-static
	[ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || needs debian-archive-keyring
}

look_for_dist() {
	have strip || needs binutils
	have dpkg-deb || needs dpkg
}

look_for_fuzz() { have c++ || needs g++; }

# The model of kernel/luf, and the kernel that is built of it.
look_for_luf_model() {
	have spin || needs spin
	needs_cc
}

# What describes a kernel's types to BPF programs, for bench/luf/told.
look_for_luf_btf() {
	have pahole || needs dwarves
}

# What builds llama.cpp, a workload of bench/luf/run.
look_for_luf_llama() {
	needs_cc
	have c++ || needs g++
	have cmake || needs cmake
	have make || needs make
	have strip || needs binutils
	# pip builds in an environment of its own what tells it the metadata of a source
	python3 -m pip --version >/dev/null 2>&1 || needs python3 python3-pip
	python3 -c 'import venv, ensurepip' 2>/dev/null || needs python3-venv
}

look_for_luf() {
	look_for_kernels
	local tool
	for tool in flex bison bc rsync make patch ccache xz mkfs.ext4 mkfs.xfs mkswap; do
		case $tool in
		xz) have xz || needs xz-utils ;;
		mkfs.ext4) have $tool || needs e2fsprogs ;;
		mkfs.xfs) have $tool || needs xfsprogs ;;
		mkswap) have $tool || needs util-linux ;;
		*) have $tool || needs $tool ;;
		esac
	done
	needs_cc
	has_header libelf.h || needs libelf-dev
}

look_for_page() {
	have python3 || needs python3
	have chromedriver || needs chromium-driver
	have chromium || have google-chrome || have chromium-browser || needs chromium
}

look() {
	packages=() need_rust=
	local job
	for job in $jobs; do
		case $job in
		build | test | house | exports | influx | servers | fleet | page | demo | bench | lab | remedies | kernels | dist | fuzz | luf | luf-btf | luf-llama | luf-model) "look_for_${job//-/_}" ;;
		*) say "setup: '$job' is none of build, test, house, exports, influx, servers, fleet, page, demo, bench, lab, remedies, kernels, dist, fuzz, luf, luf-btf, luf-llama, luf-model" && exit 2 ;;
		esac
	done
}

log=
trap '[ -z "$log" ] || rm -f "$log"' EXIT

quote_log() { { grep -E '^(E:|error:)' "$log" || tail -n 1 "$log"; } | tail -n 2 | cut -c1-200 | paste -sd' ' -; }

install_packages() {
	local list=${packages[*]}
	have apt-get ||
		fail "setup: missing: $list (Debian's names), and there is no apt-get here; install what your system has for them, then try again"
	is_root || have sudo ||
		fail "setup: missing: $list; you are not root and there is no sudo; run this as root, then try again: apt-get install -y $list"
	is_root || sudo -n true 2>/dev/null || [ -t 0 ] || [ -t 2 ] ||
		fail "setup: missing: $list; sudo wants a password and there is no terminal; run this, then try again: sudo apt-get install -y $list"
	is_root || say "setup: sudo may ask for your password"
	local server servers=()
	for server in redis-server influxdb prometheus victoria-metrics; do
		[ -d /run/systemd/system ] && [[ " $list " == *" $server "* ]] && servers+=("$server")
	done
	# Lists may be missing (a container) or old; a foreign source that can't be reached is no reason to stop.
	as_root apt-get -q update >"$log" 2>&1 || true
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends \
		-o DPkg::Lock::Timeout=120 install "${packages[@]}" >>"$log" 2>&1 ||
		fail "setup: apt-get can't install $list: $(quote_log)$(grep -q 'Failed to fetch' "$log" && echo ' (its lists could not be fetched: is there a network?)')"
	# Debian starts a server that it installs; the tests start their own.
	[ ${#servers[@]} = 0 ] || as_root systemctl --quiet disable --now "${servers[@]}" >/dev/null 2>&1 || true
}

install_rust() {
	local rustup=${CARGO_HOME:-${HOME:-/root}/.cargo}/bin/rustup
	have rustup && rustup=rustup
	if have "$rustup"; then
		"$rustup" toolchain install stable --profile minimal --component rustfmt --component clippy >"$log" 2>&1 ||
			fail "setup: rustup can't install Rust $(rust_needed) or later: $(quote_log)"
	else
		local script
		script=$(curl --proto '=https' --tlsv1.2 --retry 2 --connect-timeout 20 -sSf https://sh.rustup.rs 2>"$log") ||
			fail "setup: can't fetch rustup: $(quote_log); without a network, install Rust $(rust_needed) or later yourself, then try again"
		sh -s -- -y --no-modify-path --profile minimal --component rustfmt --component clippy \
			<<<"$script" >"$log" 2>&1 ||
			fail "setup: rustup can't install Rust: $(quote_log)"
		say "setup: Rust is in ${CARGO_HOME:-$HOME/.cargo}; to use it yourself: . ${CARGO_HOME:-$HOME/.cargo}/env"
	fi
	hash -r
}

look
[ ${#packages[@]} = 0 ] && [ -z "$need_rust" ] && exit 0
log=$(mktemp)
# Said as a whole before anything is changed.
[ ${#packages[@]} = 0 ] || say "setup: will install with apt-get: ${packages[*]}"
if [ -n "$need_rust" ]; then
	say "setup: will install Rust (stable; $(rust_needed) or later is needed) with $(have rustup && echo 'your rustup' || echo "rustup, from rustup.rs, into ${HOME:-/root}")"
fi
[ ${#packages[@]} = 0 ] || install_packages
[ -z "$need_rust" ] || install_rust
look
[ ${#packages[@]} = 0 ] || fail "setup: installed, yet still not found: ${packages[*]}"
[ -z "$need_rust" ] || fail "setup: Rust is installed, yet cargo is not $(rust_needed) or later: $(cargo --version 2>&1 | head -n1)"
say "setup: done"
