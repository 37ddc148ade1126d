/* Churn without an allocator: the program calls mmap and munmap itself, as many do for their buffers. */
#include "slots.h"

static const size_t least = 64 << 10, most = 4 << 20;
static const int slots = 96, zeroed = 1;

static char *take(size_t size)
{
	char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

static void give(char *at, size_t size)
{
	if (munmap(at, size))
		fail("munmap failed");
}
