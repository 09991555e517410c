#!/bin/sh
# instruction_sets.sh OBJECT...: only functions in the namespaces of Highway's AVX targets have AVX or
# BMI instructions. Any other function, an inline one of a shared header say, could be picked by the
# linker for the whole program and end it on a processor without them.
objdump --disassemble --demangle --no-show-raw-insn "$@" | awk '
  /^[0-9a-f]+ <.*>:$/ { name = $0; allowed = /::N_AVX/; next }
  $2 ~ /^(v.*|andn|bextr|bls(i|r|msk)|bzhi|mulx|pdep|pext|rorx|sarx|shlx|shrx)$/ {
    if (allowed) kernels[name]
    else others[name]
  }
  END {
    for (name in others) { print "has instructions of AVX or BMI: " name; failed = 1 }
    if (length(kernels) == 0) { print "no kernels"; failed = 1 }
    exit failed
  }'
