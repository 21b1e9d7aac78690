#!/bin/sh
# Compiles bpf/*.bpf.c with Debian's clang into stripped CO-RE objects. The same compiler gives the same bytes.
# usage: sh deploy/build-bpf.sh [output folder, default bpf]
set -eu
cd "$(dirname "$0")/../bpf"
out=${1:-.}
for source in *.bpf.c; do
  object=$out/${source%.c}.o
  clang -g -O2 -Wall -Werror -target bpf -D__TARGET_ARCH_x86 -fdebug-prefix-map="$PWD"=. -c "$source" -o "$object"
  llvm-strip -g "$object"
done
