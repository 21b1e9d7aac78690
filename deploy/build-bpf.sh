#!/bin/sh
# Compiles bpf/*.bpf.c with Debian's clang into stripped CO-RE objects. The same compiler gives the same bytes, whatever
# folder the sources lie in. BPF bytecode is the same on x86-64 and arm64, so one object serves both.
# usage: sh deploy/build-bpf.sh [output folder, default bpf]
set -eu
sources=$(cd "$(dirname "$0")/../bpf" && pwd -P)
out=$(cd "${1:-$sources}" && pwd -P)
cd "$sources"
for source in *.bpf.c; do
  object=$out/${source%.c}.o
  clang -g -O2 -Wall -Werror -target bpfel -fdebug-prefix-map="$PWD"=. -c "$source" -o "$object"
  llvm-strip -g "$object"
done
