#!/bin/sh
# Compiles the page kernels (AssemblyScript) to WebAssembly next to the built codec.
set -eu
cd "$(dirname "$0")/.."
mkdir -p dist/codec
node_modules/.bin/asc src/codec/kernels/page.ts -o dist/codec/page.wasm \
  -O3 --runtime stub --enable simd --importMemory --initialMemory 1 --maximumMemory 256 --noAssert --use abort=
