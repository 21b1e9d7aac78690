#!/bin/sh
# Compiles bpf/*.bpf.c with Debian's clang into stripped CO-RE objects. The same compiler gives the same bytes, whatever
# folder the sources lie in. BPF bytecode is the same on x86-64 and arm64, so one object serves both.
# usage: sh deploy/build-bpf.sh [output folder, default bpf]
# AGENTZIP_BPF_ARCH=x86|arm64 defines what libbpf's headers take as the processor; a test shows that it makes no difference.
set -eu
sources=$(cd "$(dirname "$0")/../bpf" && pwd -P)
out=$(cd "${1:-$sources}" && pwd -P)
cd "$sources"
for source in *.bpf.c; do
  object=$out/${source%.c}.o
  clang -g -O2 -Wall -Werror -target bpfel ${AGENTZIP_BPF_ARCH:+-D__TARGET_ARCH_$AGENTZIP_BPF_ARCH} -fdebug-prefix-map="$PWD"=. -c "$source" -o "$object"
  llvm-strip -g "$object"
done
