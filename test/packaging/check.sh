#!/bin/sh
# Installs a build into an empty folder and uses it the ways its users do.
#   check.sh SOURCE BUILD
# Exit 77 = skipped: the build is instrumented, so programs cannot link it.
set -u
source=$1
build=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
root=$work/root
passed=0
failed=0

# step NAME COMMAND...: the output is shown only when the command fails.
step() {
    label=$1
    shift
    if "$@" >"$work/log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $label"
        sed 's/^/    /' "$work/log"
    fi
}

refused() {
    ! "$@"
}

have() {
    command -v "$1" >/dev/null
}

option() { # value of a build option
    meson introspect --buildoptions "$build" | python3 -c '
import json, sys
print(next(o["value"] for o in json.load(sys.stdin) if o["name"] == sys.argv[1]))
' "$1"
}

if [ "$(option b_sanitize)" != none ] || [ "$(option b_coverage)" = True ]; then
    echo "skipped: $build is instrumented"
    exit 77
fi
prefix=$(option prefix)
case $(option libdir) in
/*) libdir=$root$(option libdir) ;;
*) libdir=$root$prefix/$(option libdir) ;;
esac

# --- install -----------------------------------------------------------------

# Without the manual pages: they are built with everything, not for this test.
step "install" meson install -C "$build" --destdir "$root" --no-rebuild --quiet \
    --tags runtime,devel
[ "$failed" -eq 0 ] || exit 1
shared=$libdir/libtroupe.so

soname() {
    readelf -dW "$shared" | grep -q 'SONAME.*\[libtroupe\.so\.0\]'
}

foreign_names() { # exported by the library, or global in the archive
    nm -D --defined-only "$shared" |
        awk '$2 != "A" && $3 !~ /^troupe_/ { print "exports " $3; bad = 1 }
             END { exit !bad }' ||
        nm -g --defined-only "$libdir/libtroupe.a" |
        awk 'NF == 3 && $3 !~ /^(troupe|trp)_/ { print "archive " $3; bad = 1 }
             END { exit !bad }'
}

step "soname" soname
step "soname link" test -e "$libdir/libtroupe.so.0"
step "archive" test -s "$libdir/libtroupe.a"
step "only our names" refused foreign_names

# --- a program ---------------------------------------------------------------

cat >"$work/user.c" <<'C'
#include <troupe/troupe.h>

int
main(void)
{
    troupe_system *system = NULL;

    if (troupe_version() != TROUPE_VERSION_NUMBER ||
        troupe_system_create(NULL, &system) != TROUPE_OK) {
        return 1;
    }
    return troupe_system_destroy(system) == TROUPE_OK ? 0 : 1;
}
C

cat >"$work/tester.c" <<'C'
#include <troupe/testkit.h>

int
main(void)
{
    troupe_system *system = NULL;

    if (troupe_system_create(NULL, &system) != TROUPE_OK ||
        !troupe_books_balance(system)) {
        return 1;
    }
    return troupe_system_destroy(system) == TROUPE_OK ? 0 : 1;
}
C

flags() { # pkg-config of the tree in $root, not of this machine
    PKG_CONFIG_LIBDIR=$libdir/pkgconfig \
        pkg-config --define-variable=prefix="$root$prefix" "$@"
}

with_pkg_config() {
    # shellcheck disable=SC2046
    cc "$work/user.c" $(flags --cflags --libs troupe) -o "$work/shared" &&
        readelf -dW "$work/shared" | grep -q 'NEEDED.*libtroupe\.so\.0' &&
        LD_LIBRARY_PATH=$libdir "$work/shared"
}

with_pkg_config_static() {
    # shellcheck disable=SC2046
    cc -static "$work/user.c" $(flags --cflags --libs --static troupe) \
        -o "$work/static" &&
        refused grep -q libtroupe.so "$work/static" && "$work/static"
}

with_testkit() {
    # shellcheck disable=SC2046
    cc "$work/tester.c" $(flags --cflags --libs troupe-testkit) \
        -o "$work/tester" &&
        LD_LIBRARY_PATH=$libdir "$work/tester"
}

if have pkg-config; then
    step "pkg-config" with_pkg_config
    step "pkg-config --static" with_pkg_config_static
    step "pkg-config of the test kit" with_testkit
    step "version in troupe.pc" \
        test "$(flags --modversion troupe)" = "$(meson introspect --projectinfo \
            "$build" | python3 -c \
            'import json, sys; print(json.load(sys.stdin)["version"])')"
else
    echo "no pkg-config"
fi

# --- cmake -------------------------------------------------------------------

cmake_project() { # VERSION TARGET [SOURCE]
    rm -rf "$work/cmake"
    mkdir "$work/cmake"
    cat >"$work/cmake/CMakeLists.txt" <<C
cmake_minimum_required(VERSION 3.19)
project(user C)
find_package(troupe $1 REQUIRED)
add_executable(user ../${3:-user.c})
target_link_libraries(user PRIVATE $2)
C
    cmake -S "$work/cmake" -B "$work/cmake/build" \
        -Dtroupe_DIR="$libdir/cmake/troupe" &&
        cmake --build "$work/cmake/build" && "$work/cmake/build/user"
}

cmake_refuses() { # VERSION
    rm -rf "$work/cmake"
    mkdir "$work/cmake"
    cat >"$work/cmake/CMakeLists.txt" <<C
cmake_minimum_required(VERSION 3.19)
project(user NONE)
find_package(troupe $1 REQUIRED)
C
    refused cmake -S "$work/cmake" -B "$work/cmake/build" \
        -Dtroupe_DIR="$libdir/cmake/troupe" >"$work/cmake/log" 2>&1 &&
        grep 'considered but not accepted' "$work/cmake/log"
}

export CMAKE_GENERATOR=Ninja # what the build needs anyway; make may be absent

if have cmake; then
    step "cmake shared" cmake_project 0.1 troupe::troupe
    step "cmake static" cmake_project 0.1 troupe::static
    [ -e "$libdir/libtroupe-testkit.so" ] && # not with default_library=static
        step "cmake test kit" cmake_project 0.1 troupe::testkit tester.c
    step "cmake without a version" cmake_project "" troupe::troupe
    step "cmake range" cmake_project 0.1...1 troupe::troupe
    step "cmake other minor" cmake_refuses 0.0.1
    step "cmake newer" cmake_refuses 0.99
    step "cmake other major" cmake_refuses 1
    step "cmake range below" cmake_refuses "0.0...<0.1"
else
    echo "no cmake"
fi

# --- meson subproject --------------------------------------------------------

subproject() {
    mkdir -p "$work/meson/subprojects"
    ln -s "$source" "$work/meson/subprojects/troupe"
    cp "$work/user.c" "$work/meson/user.c"
    cat >"$work/meson/meson.build" <<'C'
project('user', 'c')
troupe = dependency('troupe', fallback: ['troupe', 'troupe_dep'])
test('user', executable('user', 'user.c', dependencies: troupe))
C
    env PKG_CONFIG_LIBDIR="${ck_pc:-}" \
        meson setup "$work/meson/build" "$work/meson" &&
        meson test -C "$work/meson/build" &&
        meson introspect --tests "$work/meson/build" | python3 -c '
import json, sys
sys.exit(len(json.load(sys.stdin)) != 1)'
}

# An installed troupe of this machine must not stand in for the subproject.
ck_pc=$(pkg-config --variable=pcfiledir ck 2>/dev/null)
step "meson subproject" subproject

# --- headers -----------------------------------------------------------------

headers() { # COMPILER STANDARD SUFFIX: each alone, and twice
    warnings="-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wundef -Werror"
    for path in "$root$prefix/include/troupe/"*.h; do
        name=troupe/$(basename "$path")
        printf '#include <%s>\n#include <%s>\ntypedef int not_empty;\n' \
            "$name" "$name" >"$work/alone.$3"
        # shellcheck disable=SC2086
        "$1" "-std=$2" $warnings -fsyntax-only -I"$root$prefix/include" \
            "$work/alone.$3" || return 1
    done
}

for compiler in gcc clang; do
    have $compiler && step "headers with $compiler" headers $compiler c11 c
done
for compiler in g++ clang++; do
    have $compiler && step "headers with $compiler" headers $compiler c++17 cc
done

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
