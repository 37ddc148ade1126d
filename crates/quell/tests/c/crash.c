/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A library that breaks what it is loaded into: when it is loaded, or with -DAT_MUNMAP when memory is first given back. */
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>

#ifdef AT_MUNMAP
int munmap(void *start, size_t length)
{
	(void)start;
	(void)length;
	abort();
}
#else
__attribute__((constructor)) static void crash(void)
{
	raise(SIGSEGV);
}
#endif
