/* Allocation churn: blocks of 64 KB to 4 MB by malloc. */
#include "slots.h"

static const size_t least = 64 << 10, most = 4 << 20;
static const int slots = 96, zeroed = 0;

static char *take(size_t size) { return malloc(size); }

static void give(char *at, size_t size)
{
	(void)size;
	free(at);
}
