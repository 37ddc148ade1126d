divert(`-1')
# Counts down by macros that call each other.
define(`upto', `ifelse(`$1', `0', `', `define(`n$1', eval(`$1 * 7919 % 1009'))upto(decr($1))')')
define(`sum', `ifelse(`$1', `0', `$2', `sum(decr($1), eval($2 + n$1))')')
define(`fib', `ifelse(eval(`$1 < 2'), `1', `$1', `eval(fib(decr($1)) + fib(eval($1 - 2)))')')
divert`'dnl
upto(`4000')sum(`4000', `0') fib(`31')
