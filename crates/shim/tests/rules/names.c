// Both names of mmap, and errno as it was.
#include "check.h"
#include <dlfcn.h>

#define KEEPS(call) (errno = 1234, (call) && errno == 1234)

int main(void) {
	MUST(dlsym(RTLD_DEFAULT, "mmap") == dlsym(RTLD_DEFAULT, "mmap64"));
	Dl_info about;
	MUST(dladdr(dlsym(RTLD_DEFAULT, "mmap"), &about) && strstr(about.dli_fname, "libquell.so"));
	for (int i = 0; i < 300; i++) {
		char *p;
		MUST(KEEPS((p = mmap64(0, 8 * PAGE, RW, ANON, -1, 0)) != MAP_FAILED));
		memset(p, 1, 8 * PAGE);
		MUST(KEEPS(madvise(p, PAGE, MADV_DONTNEED) == 0) && KEEPS(madvise(p, PAGE, MADV_FREE) == 0));
		MUST(KEEPS(mprotect(p, PAGE, RW) == 0) && KEEPS(mprotect(p, PAGE, PROT_READ) == 0));
		MUST(KEEPS(mremap(p, 8 * PAGE, 4 * PAGE, 0) == p || 1));
		MUST(KEEPS(munmap(p, 8 * PAGE) == 0));
	}
	errno = 0;
	MUST(mmap(0, 0, RW, ANON, -1, 0) == MAP_FAILED && errno == EINVAL);
	MUST(mmap(0, PAGE, RW, ANON, -1, 1) == MAP_FAILED && errno == EINVAL);
	MUST(mmap(0, -PAGE, RW, ANON, -1, 0) == MAP_FAILED && errno == ENOMEM);
	MUST(mmap(0, PAGE, RW, MAP_PRIVATE, -1, 0) == MAP_FAILED && errno == EBADF);
	MUST(munmap((char *)1, PAGE) == -1 && errno == EINVAL);
	MUST(madvise((char *)PAGE, PAGE, 9999) == -1 && errno == EINVAL);
	MUST(mremap(map(PAGE), PAGE, 0, 0) == MAP_FAILED && errno == EINVAL);
	MUST(mlock((char *)PAGE, PAGE) == -1 && errno == ENOMEM);
	return 0;
}
