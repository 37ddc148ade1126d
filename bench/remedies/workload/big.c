/* Churn of few and big blocks: 1 to 64 MB. */
#include "slots.h"

static const size_t least = 1 << 20, most = 64 << 20;
static const int slots = 32, zeroed = 0;

static char *take(size_t size) { return malloc(size); }

static void give(char *at, size_t size)
{
	(void)size;
	free(at);
}
