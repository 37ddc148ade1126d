// Reads what it has unmapped.
#include "check.h"

int main(void) {
	char *p = filled(16 * PAGE);
	MUST(munmap(p, 16 * PAGE) == 0);
	return *(volatile char *)p == 7 ? 0 : 2;
}
