#!/bin/sh
# exported_symbols.sh ISA OBJECT...: kernels compiled for one instruction set may show the
# linker nothing but themselves. Any other symbol, an inline function of a shared header
# say, could be picked for the whole program and end it on a processor without ISA.
isa=$1
shift
others=$(nm --demangle --defined-only --extern-only "$@" |
  grep -v -e ':$' -e '^$' -e " trireme::simd::[a-z_]*<(trireme::simd::Isa)$isa[,>]")
if [ -n "$others" ]; then
  echo "seen by the linker beside the kernels:"
  echo "$others"
  exit 1
fi
[ "$(nm --defined-only --extern-only "$@" | grep -c Isa)" -gt 0 ] || { echo "no kernels"; exit 1; }
