// Reads what it has unmapped.
#include "check.h"

int main(void) {
	char *p = filled(16 * PAGE);
	MUST(munmap(p, 16 * PAGE) == 0);
	// Where a page begins is the library's mark.
	return *(volatile char *)(p + PAGE + 8) == 7 ? 0 : 2;
}
