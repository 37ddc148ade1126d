/* The same churn by calloc, whose blocks have to be zero in every byte. */
#include "slots.h"

static const size_t least = 64 << 10, most = 4 << 20;
static const int slots = 96, zeroed = 1;

static char *take(size_t size) { return calloc(size, 1); }

static void give(char *at, size_t size)
{
	(void)size;
	free(at);
}
