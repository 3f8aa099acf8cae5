#!/bin/sh
# Builds tptrace and installs it: the shared and the static library, the headers, the files of pkg-config and CMake, and the
# command with its manual and completions.
#
# usage: sh scripts/install.sh [--prefix FOLDER] [--libdir NAME] [--destdir FOLDER] [--strip] [--library-only]
#
#   --prefix FOLDER    where it is for those who use it; /usr/local if not given. It may be moved later, as a whole
#   --libdir NAME      the folder of the libraries in it: lib, lib64, lib/x86_64-linux-gnu; lib if not given
#   --destdir FOLDER   put in front of the prefix, for those who make packages
#   --strip            without what debuggers read, which is most of the size
#   --library-only     without the command, its manual and its completions: what `cargo cinstall` installs
#
# Needs Rust and a C compiler.
set -eu
prefix=/usr/local libdir=lib destdir='' command=yes strip=no
while [ $# -gt 0 ]; do
  case $1 in
    --prefix=* | --libdir=* | --destdir=*) option=${1%%=*} value=${1#*=}; shift; set -- "$option" "$value" "$@" ;;
    --prefix | --libdir | --destdir)
      [ $# -ge 2 ] || { echo "install.sh: $1 needs a value" >&2; exit 2; }
      case $1 in
        --prefix) prefix=$2 ;;
        --libdir) libdir=$2 ;;
        --destdir) destdir=$2 ;;
      esac
      shift 2 ;;
    --library-only) command=no; shift ;;
    --strip) strip=yes; shift ;;
    -h | --help) sed -n '2,/^set -eu/{/^#/s/^# \{0,1\}//p}' "$0"; exit ;;
    *) echo "install.sh: no such option: $1 (--help tells them)" >&2; exit 2 ;;
  esac
done
case $prefix in
  /*) ;;
  *) prefix=$PWD/$prefix ;;
esac
case $libdir in
  /* | *..* | '') echo "install.sh: --libdir is a folder in the prefix, such as lib64, not '$libdir'" >&2; exit 2 ;;
esac
cd "$(dirname -- "$0")/.."
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)
soname=$(sed -n 's/^const SONAME: &str = "\(.*\)";$/\1/p' build.rs)
full=libtptrace.so.$version

cargo build --release --locked
built=${CARGO_TARGET_DIR:-target}/release

to=$destdir$prefix
put() { # put MODE FOLDER FILE [NAME]
  mkdir -p "$to/$2"
  # Beside and then renamed: a program that runs with the library of before keeps it.
  cp "$3" "$to/$2/.new.$$"
  case $strip$3 in
    yes*/libtptrace.* | yes*/tptrace) strip --strip-debug "$to/$2/.new.$$" ;;
  esac
  chmod "$1" "$to/$2/.new.$$"
  mv -f "$to/$2/.new.$$" "$to/$2/${4:-$(basename "$3")}"
}
put 755 "$libdir" "$built/libtptrace.so" "$full"
ln -sfn "$full" "$to/$libdir/$soname"
ln -sfn "$soname" "$to/$libdir/libtptrace.so"
put 644 "$libdir" "$built/libtptrace.a"
for header in include/tracer.h bindings/cpp/tracer*.h*; do
  put 644 include/tptrace "$header"
done
for file in bindings/cmake/*.cmake; do
  put 644 share/cmake/tptrace "$file"
done
# From LIBDIR/pkgconfig back to the prefix.
up=$(printf '%s/pkgconfig\n' "$libdir" | sed 's/[^\/][^\/]*/../g')
mkdir -p "$to/$libdir/pkgconfig"
sed -e "s,@up@,$up," -e "s,@libdir@,$libdir," -e "s,@version@,$version," bindings/pkgconfig/tptrace.pc.in >"$to/$libdir/pkgconfig/tptrace.pc"
if [ "$command" = yes ]; then
  put 755 bin "$built/tptrace"
  "$built/tptrace" man "$to/share/man/man1"
  complete() { # complete SHELL FOLDER NAME
    mkdir -p "$to/share/$2"
    "$built/tptrace" completions "$1" >"$to/share/$2/$3"
  }
  complete bash bash-completion/completions tptrace
  complete zsh zsh/site-functions _tptrace
  complete fish fish/vendor_completions.d tptrace.fish
fi
echo "installed tptrace $version in $to"
