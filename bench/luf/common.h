// What the programs of this laboratory share.
#ifndef COMMON_H
#define COMMON_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void fail(const char *doing)
{
	fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, doing, strerror(errno));
	exit(2);
}

// One to one, and far apart for what is near.
static inline uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 31)) * 0x7fb5d329728ea185;
	x = (x ^ (x >> 27)) * 0x81dadef4bc2dd44d;
	return x ^ (x >> 33);
}

#endif
