set terminal svg size 900,700
set output "/dev/null"
set isosamples 140
set samples 140
do for [n = 1:40] {
    set view 60, 7 * n
    splot sin(sqrt(x ** 2 + n * y ** 2)) / (0.3 + cos(x) ** 2) with pm3d
}
