# shellcheck shell=bash
# What the scripts share. Sourced, with bash; leaves the working directory at the project's root.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# `make build` promises target/release/quell, whatever the user's own settings are.
export CARGO_TARGET_DIR=$PWD/target

# Everything that the scripts say goes to stderr: stdout is for what was asked for.
say() { printf '%s\n' "$*" >&2; }
# With the minutes since the script began, so that a log shows where its time went.
step() { printf '\n==> %s (%d min)\n' "$*" $((SECONDS / 60)) >&2; }
fail() {
	say "$*"
	exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }
is_root() { [ "$(id -u)" = 0 ]; }

# Run a command as root: as it is, or by sudo.
as_root() {
	if is_root; then "$@"; else sudo -- "$@"; fi
}

# The archives that this machine's own apt has packages from, one a line, without a slash at their ends; none where there is no apt.
apt_archives() {
	# shellcheck disable=SC2016  # apt fills this in
	{ apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null || :; } | sed 's,/$,,' | sort -u
}

# Where this machine's own apt has Debian's packages from, without a slash at its end; DEBIAN_ARCHIVE names another place.
# With 'security' that of security updates.
debian_archive() {
	local wanted=${1:-} url
	if [ -n "${DEBIAN_ARCHIVE-}" ]; then
		echo "${DEBIAN_ARCHIVE%/}${wanted:+-$wanted}"
		return
	fi
	for url in $(apt_archives); do
		case $url in
		*-security) [ "$wanted" != security ] || { echo "$url" && return; } ;;
		*) [ -n "$wanted" ] || { echo "$url" && return; } ;;
		esac
	done
	say "apt here knows no archive of Debian's packages: DEBIAN_ARCHIVE names one"
	return 1
}

# Where this machine's own apt has Ubuntu's packages from; VM_UBUNTU names another place. Prints nothing where there is none.
ubuntu_archive() {
	[ -z "${VM_UBUNTU-}" ] || { echo "${VM_UBUNTU%/}" && return; }
	apt_archives | awk '/\/ubuntu$/ && !found++'
}

# The oldest Rust that builds this, as Cargo.toml says it.
rust_needed() { sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml; }

# Whether the cargo that would be run is new enough.
cargo_is_new() {
	local version
	version=$(RUSTUP_AUTO_INSTALL=0 cargo --version 2>/dev/null | cut -d' ' -f2) || return 1
	[ "$(printf '%s\n' "$(rust_needed)" "$version" | sort -V | head -n1)" = "$(rust_needed)" ]
}

# Take the cargo on the PATH, or rustup's, or its stable one where the user's default is too old.
find_cargo() {
	cargo_is_new && return
	local path=$PATH
	export PATH=${CARGO_HOME:-${HOME:-/root}/.cargo}/bin:$PATH
	cargo_is_new && return
	have rustup && RUSTUP_TOOLCHAIN=stable cargo_is_new && export RUSTUP_TOOLCHAIN=stable && return
	PATH=$path
	return 1
}

# The Python that opens pages in Chromium, by Selenium; it is there once find_page_driver has succeeded.
page_python=target/page-venv/bin/python
# Finds or installs Chromium, its driver and the modules of page_python. Where that can't be, it prints why on stdout and fails.
find_page_driver() {
	if ! have chromedriver || ! { have chromium || have google-chrome || have chromium-browser; }; then
		# Debian's Chromium is some hundred megabytes; where it can't be had, the rest is still tested.
		(scripts/setup.sh page) >&2 || { echo "there is no Chromium with its driver, and it can't be installed (see above)" && return 1; }
	fi
	has_modules target/page-venv 'selenium, PIL' 'selenium>=4.20' 'pillow>=10' >&2 ||
		{ echo "there is no python3 with venv, or pip can't install Selenium; is there a network?" && return 1; }
}

# Whether there is a virtual environment of Python's with these modules; makes it and gets packages from PyPI if need be.
has_modules() { # VENV MODULES PACKAGES...: modules with commas between
	local venv=$1 modules=$2 me
	shift 2
	me=$(basename "$0")
	# demo: what makes a virtual environment
	python3 -c 'import venv, ensurepip' 2>/dev/null ||
		{ scripts/setup.sh demo && python3 -c 'import venv, ensurepip' 2>/dev/null; } || return 1
	[ -x "$venv/bin/python" ] || python3 -m venv "$venv" || return 1
	"$venv/bin/python" -c "import $modules" 2>/dev/null && return
	say "$me: installing $* from PyPI into $venv"
	"$venv/bin/pip" install --quiet --disable-pip-version-check "$@" && "$venv/bin/python" -c "import $modules"
}
