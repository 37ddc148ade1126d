// A library whose malloc_trim the program means, and not the C library's.
#include <stddef.h>
int malloc_trim(size_t pad) { return (int)pad + 40; }
