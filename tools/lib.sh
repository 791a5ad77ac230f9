# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# For the scripts in tools/, which source it:
#
#     . "$(dirname "$0")/lib.sh"
#
# POSIX sh; no side effects but the functions.

say() {
    printf '== %s\n' "$*"
}

die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# Prints those of the packages that are not installed, each on a line.
missing_packages() {
    for missing_one in "$@"; do
        # shellcheck disable=SC2016 # the format is dpkg-query's
        case $(dpkg-query -W -f '${Status}' "$missing_one" 2>/dev/null) in
        *' installed') ;;
        *) printf '%s\n' "$missing_one" ;;
        esac
    done
}

apt_install() {
    apt-get update -q &&
        DEBIAN_FRONTEND=noninteractive apt-get install -q -y \
            --no-install-recommends "$@"
}

# need_packages package...
# Installs what is missing, if root. Otherwise says what to type and exits with
# 3. On a system without dpkg it trusts that everything is there.
need_packages() {
    if ! command -v dpkg-query >/dev/null 2>&1; then
        say "no dpkg here: packages are not checked"
        return 0
    fi
    need_missing=$(missing_packages "$@" | tr '\n' ' ')
    need_missing=${need_missing% }
    if [ -z "$need_missing" ]; then
        return 0
    fi
    if [ "$(id -u)" != 0 ]; then
        printf '%s: packages are missing; as root:\n\n    apt-get install %s\n\n' \
            "${0##*/}" "--no-install-recommends $need_missing" >&2
        exit 3
    fi
    say "installing $need_missing"
    # A mirror may change between the two steps, so once more is worth it.
    # shellcheck disable=SC2086 # a list of words
    if ! apt_install $need_missing && ! apt_install $need_missing; then
        die "apt-get could not install: $need_missing"
    fi
}

# configure directory target [meson option ...]
# So that the target can be built: sets up the directory, or sets the options in
# one that does not know the target. The caller has set source_dir, the top of
# the tree.
configure() {
    build_dir=$1
    build_target=$2
    shift 2
    if [ ! -f "$build_dir/build.ninja" ]; then
        say "configuring $build_dir"
        # shellcheck disable=SC2154 # see above
        meson setup "$build_dir" "$source_dir" "$@" || die "meson has failed"
    elif ! grep -q "^build $build_target:" "$build_dir/build.ninja"; then
        say "configuring $build_dir again"
        meson configure "$build_dir" "$@" || die "meson has failed"
        meson setup --reconfigure "$build_dir" || die "meson has failed"
    fi
}

# build directory [target ...]
# No target is all of them.
build() {
    say "building $1"
    ninja -C "$@" || die "the build has failed"
}
